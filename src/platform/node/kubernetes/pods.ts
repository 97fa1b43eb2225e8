/** Discovery of engines in Kubernetes pods: one watch for each selection of a configuration. */
import type { Config, EngineConfig } from '../../../config.ts'
import { type FoundPod, podTemplatesIn } from '../../../config/discover.ts'
import type { Log } from '../../../ports.ts'
import {
  type KubernetesAccess,
  type FollowTimes,
  type Change,
  follow,
  StatusError,
  type KubernetesObject,
} from './access.ts'

/* What a pod of the Kubernetes API says about the engine in it. */

/** Fields of a pod that are read. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ */
interface Pod extends KubernetesObject {
  readonly metadata: KubernetesObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
  readonly spec?: {
    readonly containers?: readonly { readonly ports?: readonly { name?: string; containerPort: number }[] }[]
  }
  readonly status?: {
    readonly phase?: string
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

/** Annotation with the weight of the engine. */
const WEIGHT = 'firstlight/weight'
/** Annotation with the port, or the ZeroMQ endpoint, of the engine's KV events. */
const KV_EVENTS = 'firstlight/kv-events'

/** True if the pod is Ready, has an address and is not terminating. */
function isReady({ metadata, status }: Pod): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.podIP !== undefined &&
    status.phase !== 'Succeeded' &&
    status.phase !== 'Failed' &&
    (status.conditions ?? []).some((condition) => condition.type === 'Ready' && condition.status === 'True')
  )
}

/** Port number of a name or number; null: no container declares a port with this name. */
function portOf({ spec }: Pod, port: string | number): number | null {
  if (typeof port === 'number') return port
  const ports = (spec?.containers ?? []).flatMap((container) => container.ports ?? [])
  return ports.find(({ name }) => name === port)?.containerPort ?? null
}

/** Weight from 0 to 1000; null: absent or invalid. */
function weightOf({ metadata }: Pod): number | null {
  const text = metadata.annotations?.[WEIGHT]?.trim() ?? ''
  const weight = Number(text)
  return text !== '' && weight >= 0 && weight <= 1000 ? weight : null
}

/** Port of the KV events: `5557` or `tcp://*:5557`; null: absent or invalid. */
function kvEventsPortOf({ metadata }: Pod): number | null {
  const digits = /^(?:tcp:\/\/[^:/]*:)?([0-9]{1,5})$/.exec(metadata.annotations?.[KV_EVENTS]?.trim() ?? '')?.[1]
  const port = Number(digits)
  return digits !== undefined && port >= 1 && port <= 65_535 ? port : null
}

/** Annotations whose values are not used. */
function invalidAnnotations(pod: Pod): readonly string[] {
  const { annotations = {} } = pod.metadata
  return [
    ...(annotations[WEIGHT] !== undefined && weightOf(pod) === null ? [WEIGHT] : []),
    ...(annotations[KV_EVENTS] !== undefined && kvEventsPortOf(pod) === null ? [KV_EVENTS] : []),
  ]
}

/** Time limit of a request to a pod, milliseconds. */
const ASK_MS = 2_000
/** Interval at which a pod is asked that has not answered yet, milliseconds. */
const FIRST_ASK_MS = 250

interface Tracked {
  pod: Pod
  /** null: not read yet. */
  models: readonly string[] | null
  isSleeping: boolean
  /** True after the first attempt to read models and sleep state. */
  asked: boolean
  /** Called after that attempt, and when the pod is no longer asked. */
  readonly settled: () => void
  readonly settling: Promise<void>
  /** Ends the questions to this pod; null: not Ready, so it is not asked. */
  asking: AbortController | null
}

interface SelectionParts {
  readonly access: KubernetesAccess
  readonly log: Log
  readonly times?: FollowTimes | undefined
  /** Called when the pods that can take requests differ from before. */
  changed(): void
}

class Selection {
  /** Interval of the questions to ready pods, milliseconds. */
  intervalMs = Infinity
  /** Resolves when the first list has arrived and its ready pods were asked once. */
  readonly listed: Promise<void>
  readonly #parts: SelectionParts
  readonly #template: EngineConfig
  readonly #namespace: string
  readonly #pods = new Map<string, Tracked>()
  readonly #end = new AbortController()
  readonly #reported = new Set<string>()
  #resolveListed: () => void = () => undefined
  #failing = false
  #found: readonly FoundPod[] = []

  constructor(template: EngineConfig, parts: SelectionParts) {
    this.#parts = parts
    this.#template = template
    this.#namespace = template.kubernetes!.namespace ?? parts.access.namespace
    this.listed = new Promise((resolve) => (this.#resolveListed = resolve))
    void this.#run()
  }

  /** Pods that can take requests, sorted by address. */
  get found(): readonly FoundPod[] {
    return this.#found
  }

  close(): void {
    this.#end.abort()
    for (const { asking } of this.#pods.values()) asking?.abort()
    this.#resolveListed()
  }

  async #run(): Promise<void> {
    const changes = follow<Pod>({
      access: this.#parts.access,
      path: `/api/v1/namespaces/${this.#namespace}/pods`,
      labelSelector: this.#template.kubernetes!.selector,
      signal: this.#end.signal,
      failed: (error) => this.#report(error),
      ...(this.#parts.times === undefined ? {} : { times: this.#parts.times }),
    })
    for await (const change of changes) {
      if (this.#end.signal.aborted) return
      this.#failing = false
      this.#apply(change)
      this.#publish()
    }
  }

  #report(error: Error): void {
    if (this.#failing) return
    this.#failing = true
    const code = error instanceof StatusError ? error.code : (error as NodeJS.ErrnoException).code
    const grant = `Grant the verbs list and watch on pods in the namespace ${this.#namespace}.`
    const next = code === 403 || code === 401 ? grant : 'Its engines stay as they are until the API server answers.'
    this.#parts.log.warn('kubernetes_watch_failed', { namespace: this.#namespace, code, why: error.message, next })
  }

  #apply(change: Change<Pod>): void {
    if (change.type !== 'list') {
      if (change.type === 'set') this.#set(change.item)
      else this.#delete(change.item.metadata.uid)
      return
    }
    const present = new Set(change.items.map(({ metadata }) => metadata.uid))
    for (const uid of this.#pods.keys()) if (!present.has(uid)) this.#delete(uid)
    for (const pod of change.items) this.#set(pod)
    const asked = [...this.#pods.values()].filter(({ asking }) => asking !== null)
    void Promise.all(asked.map(({ settling }) => settling)).then(this.#resolveListed)
  }

  #set(pod: Pod): void {
    const { uid } = pod.metadata
    const tracked = this.#pods.get(uid) ?? track(pod)
    tracked.pod = pod
    this.#pods.set(uid, tracked)
    if (isReady(pod) && this.#portOf(pod) !== undefined) {
      if (tracked.asking === null) void this.#ask(tracked, (tracked.asking = new AbortController()).signal)
    } else {
      tracked.asking?.abort()
      tracked.asking = null
      tracked.settled()
    }
  }

  #delete(uid: string): void {
    const tracked = this.#pods.get(uid)
    tracked?.asking?.abort()
    tracked?.settled()
    this.#pods.delete(uid)
    this.#reported.delete(uid)
  }

  /** Asks a ready pod for models and sleep state, again and again. A failed question leaves the last answer. */
  async #ask(tracked: Tracked, signal: AbortSignal): Promise<void> {
    this.#check(tracked.pod)
    while (!signal.aborted) {
      const isAnswered = await this.#askOnce(tracked, signal)
      if (signal.aborted) return
      tracked.asked = true
      this.#publish()
      tracked.settled()
      await wait(isAnswered ? this.intervalMs : FIRST_ASK_MS, signal)
    }
  }

  /** Returns false if the pod's models are still unknown. */
  async #askOnce(tracked: Tracked, signal: AbortSignal): Promise<boolean> {
    const readsModels = this.#template.kubernetes!.match === 'model'
    const [models, sleep] = await Promise.all([
      readsModels ? this.#get(tracked.pod, '/v1/models', signal) : null,
      this.#get(tracked.pod, '/is_sleeping', signal),
    ])
    if (signal.aborted) return false
    const list = (models as { data?: readonly { id?: unknown }[] } | null)?.data
    if (Array.isArray(list)) tracked.models = list.map((model) => String((model as { id?: unknown } | null)?.id))
    const state = (sleep as { is_sleeping?: unknown } | null)?.is_sleeping
    if (typeof state === 'boolean') tracked.isSleeping = state
    return !readsModels || tracked.models !== null
  }

  /** JSON of a path of the pod's server; null: another status than 200, no JSON or no answer. */
  async #get(pod: Pod, path: string, signal: AbortSignal): Promise<unknown> {
    const { key, headers, url: written } = this.#template
    const url = new URL(written)
    const address = pod.status!.podIP!
    url.hostname = address.includes(':') ? `[${address}]` : address
    const port = this.#portOf(pod)
    if (typeof port === 'number') url.port = String(port)
    try {
      const response = await fetch(`${url.origin}${url.pathname.replace(/\/+$/, '')}${path}`, {
        headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]),
      })
      if (response.ok) return (await response.json()) as unknown
      await response.body?.cancel()
    } catch {
      // The next question finds out.
    }
    return null
  }

  /** Port of the server; null: that of the URL; undefined: no container declares the name. */
  #portOf(pod: Pod): number | null | undefined {
    const { port } = this.#template.kubernetes!
    return port === null ? null : (portOf(pod, port) ?? undefined)
  }

  /** Logs once per pod what is wrong with its annotations. */
  #check(pod: Pod): void {
    const { uid, name } = pod.metadata
    const annotations = invalidAnnotations(pod)
    if (annotations.length === 0 || this.#reported.has(uid)) return
    this.#reported.add(uid)
    this.#parts.log.warn('pod_annotation_ignored', {
      pod: name,
      annotations,
      next: 'Use a weight from 0 to 1000, and a port such as 5557 for KV events.',
    })
  }

  #publish(): void {
    const found = [...this.#pods.values()]
      .filter((one) => one.asking !== null && one.asked && !one.isSleeping && this.#isAnswered(one))
      .map((one) => this.#foundPod(one))
      .sort((one, other) => (one.address < other.address ? -1 : 1))
    if (JSON.stringify(found) === JSON.stringify(this.#found)) return
    const [before, after] = [namesOf(this.#found), namesOf(found)]
    this.#found = found
    const { selector } = this.#template.kubernetes!
    this.#parts.log.info('pods_found', {
      namespace: this.#namespace,
      selector,
      added: [...after].filter((name) => !before.has(name)),
      gone: [...before].filter((name) => !after.has(name)),
      pods: found.length,
    })
    this.#parts.changed()
  }

  #isAnswered({ models }: Tracked): boolean {
    return this.#template.kubernetes!.match === 'all' || models !== null
  }

  #foundPod({ pod, models }: Tracked): FoundPod {
    return {
      name: pod.metadata.name,
      address: pod.status!.podIP!,
      port: this.#portOf(pod) ?? null,
      labels: pod.metadata.labels ?? {},
      models,
      weight: weightOf(pod),
      kvEventsPort: kvEventsPortOf(pod),
    }
  }
}

const namesOf = (pods: readonly FoundPod[]): ReadonlySet<string> => new Set(pods.map(({ name }) => name))

function track(pod: Pod): Tracked {
  let settled: (() => void) | null = null
  const settling = new Promise<void>((resolve) => (settled = resolve))
  return { pod, models: null, isSleeping: false, asked: false, settled: settled!, settling, asking: null }
}

/** Waits; ends early when the signal is aborted. The longest wait of a timer is 2^31 - 1 ms. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1))
    timer.unref()
    signal.addEventListener('abort', done)
  })
}

export interface PodDiscoveryParts {
  /** Throws if there is no access to an API server. */
  access(): KubernetesAccess
  readonly log: Log
  readonly times?: FollowTimes | undefined
  /** Called when the pods of any selection have changed. */
  changed(): void
}

export class PodDiscovery {
  readonly #parts: PodDiscoveryParts
  readonly #selections = new Map<string, Selection>()
  #access: KubernetesAccess | null = null

  constructor(parts: PodDiscoveryParts) {
    this.#parts = parts
  }

  /**
   * Follows the selections of a configuration. Returns a template of each new one; `listed` resolves when they have
   * been listed. Throws if there is no access to an API server.
   */
  start(written: Config): { readonly fresh: readonly EngineConfig[]; readonly listed: Promise<unknown> } {
    const fresh: EngineConfig[] = []
    const listed: Promise<void>[] = []
    for (const [template, intervalMs] of podTemplatesIn(written)) {
      const key = keyOf(template)
      let selection = this.#selections.get(key)
      if (selection === undefined) {
        this.#access ??= this.#parts.access()
        selection = new Selection(template, { ...this.#parts, access: this.#access })
        this.#selections.set(key, selection)
        fresh.push(template)
        listed.push(selection.listed)
      }
      selection.intervalMs = Math.min(selection.intervalMs, intervalMs)
    }
    return { fresh, listed: Promise.all(listed) }
  }

  podsOf(template: EngineConfig): readonly FoundPod[] {
    return this.#selections.get(keyOf(template))?.found ?? []
  }

  /** Stops following selections that the configuration does not contain. */
  settle(written: Config): void {
    const wanted = new Set(podTemplatesIn(written).map(([template]) => keyOf(template)))
    for (const [key, selection] of this.#selections) {
      if (wanted.has(key)) continue
      selection.close()
      this.#selections.delete(key)
    }
  }

  close(): void {
    for (const selection of this.#selections.values()) selection.close()
    this.#selections.clear()
  }
}

/** Templates that differ only in settings of the engines, such as weight and role, share a watch. */
function keyOf({ url, key, headers, kubernetes }: EngineConfig): string {
  const { namespace, selector, port, match } = kubernetes!
  return JSON.stringify([namespace, selector, port, match, url, key, headers])
}
