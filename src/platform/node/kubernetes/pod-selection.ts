/**
 * Pods of one label selector: watches them, and reads the models of each ready pod if its pool wants those of one
 * model. Whether an engine sleeps is the matter of its probes, as for any engine: only then can a request wake it.
 */
import type { EngineConfig } from '../../../config.ts'
import type { DiscoveredPod } from '../../../config/discover.ts'
import type { Log } from '../../../ports/log.ts'
import type { KubernetesAccess } from './access.ts'
import { type Change, listWatch, StatusError, type WatchTimes } from './list-watch.ts'
import { invalidAnnotations, isReady, kvEventsPortOf, type Pod, portOf, weightOf } from './pod.ts'

/** Time limit of a request to a pod, milliseconds. */
const ASK_MS = 2_000

/** Interval at which a pod is polled that has not answered yet, milliseconds. */
const FIRST_ASK_MS = 250

interface TrackedPod {
  pod: Pod
  /** null: not read yet. */
  models: readonly string[] | null
  /** Called when the pod was asked for its models once or need not be, and when it is no longer polled. */
  readonly settled: () => void
  readonly settling: Promise<void>
  /** Ends the questions to this pod; null: not Ready, so it is not asked. */
  polling: AbortController | null
}

interface PodSelectionParts {
  readonly access: KubernetesAccess
  readonly log: Log
  readonly times?: WatchTimes | undefined
  /** Called when the pods that can take requests differ from before. */
  changed(): void
}

export class PodSelection {
  /** Interval of the questions to ready pods, milliseconds. */
  intervalMs = Infinity
  /** Resolves when the first list has arrived and its ready pods were asked once. */
  readonly listed: Promise<void>
  readonly #parts: PodSelectionParts
  readonly #template: EngineConfig
  readonly #namespace: string
  readonly #pods = new Map<string, TrackedPod>()
  readonly #end = new AbortController()
  readonly #reported = new Set<string>()
  #resolveListed: () => void = () => undefined
  #failing = false
  #found: readonly DiscoveredPod[] = []

  constructor(template: EngineConfig, parts: PodSelectionParts) {
    this.#parts = parts
    this.#template = template
    this.#namespace = template.kubernetes!.namespace ?? parts.access.namespace
    this.listed = new Promise((resolve) => (this.#resolveListed = resolve))
    void this.#run()
  }

  /** Pods that can take requests, sorted by address. */
  get found(): readonly DiscoveredPod[] {
    return this.#found
  }

  close(): void {
    this.#end.abort()
    for (const { polling } of this.#pods.values()) polling?.abort()
    this.#resolveListed()
  }

  async #run(): Promise<void> {
    const changes = listWatch<Pod>({
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
    const next = code === 403 || code === 401 ? grant : 'Its engines are kept until the API server answers.'
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
    const polled = [...this.#pods.values()].filter(({ polling }) => polling !== null)
    void Promise.all(polled.map(({ settling }) => settling)).then(this.#resolveListed)
  }

  #set(pod: Pod): void {
    const { uid } = pod.metadata
    const tracked = this.#pods.get(uid) ?? track(pod)
    tracked.pod = pod
    this.#pods.set(uid, tracked)
    if (isReady(pod) && this.#portOf(pod) !== undefined) {
      if (tracked.polling === null) void this.#poll(tracked, (tracked.polling = new AbortController()).signal)
    } else {
      tracked.polling?.abort()
      tracked.polling = null
      tracked.settled()
    }
  }

  #delete(uid: string): void {
    const tracked = this.#pods.get(uid)
    tracked?.polling?.abort()
    tracked?.settled()
    this.#pods.delete(uid)
    this.#reported.delete(uid)
  }

  /** Reads the models of a ready pod periodically, if they matter. A failed request leaves the last response. */
  async #poll(tracked: TrackedPod, signal: AbortSignal): Promise<void> {
    this.#check(tracked.pod)
    if (this.#template.kubernetes!.match === 'all') return tracked.settled()
    while (!signal.aborted) {
      const isAnswered = await this.#readModels(tracked, signal)
      if (signal.aborted) return
      this.#publish()
      tracked.settled()
      await wait(isAnswered ? this.intervalMs : FIRST_ASK_MS, signal)
    }
  }

  /** Returns false if the pod's models are still unknown. */
  async #readModels(tracked: TrackedPod, signal: AbortSignal): Promise<boolean> {
    const models = await this.#get(tracked.pod, '/v1/models', signal)
    if (signal.aborted) return false
    const list = (models as { data?: readonly { id?: unknown }[] } | null)?.data
    if (Array.isArray(list)) tracked.models = list.map((model) => String((model as { id?: unknown } | null)?.id))
    return tracked.models !== null
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
      .filter((one) => one.polling !== null && this.#isAnswered(one))
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

  #isAnswered({ models }: TrackedPod): boolean {
    return this.#template.kubernetes!.match === 'all' || models !== null
  }

  #foundPod({ pod, models }: TrackedPod): DiscoveredPod {
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

const namesOf = (pods: readonly DiscoveredPod[]): ReadonlySet<string> => new Set(pods.map(({ name }) => name))

function track(pod: Pod): TrackedPod {
  let settled: (() => void) | null = null
  const settling = new Promise<void>((resolve) => (settled = resolve))
  return { pod, models: null, settled: settled!, settling, polling: null }
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
