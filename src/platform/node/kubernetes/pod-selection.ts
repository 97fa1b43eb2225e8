/**
 * Pods of one label selector: watches them, and reads the models of each server of a ready pod if its pool wants those
 * of one model. Whether an engine sleeps is the matter of its probes, as for any engine: only then can a request wake
 * it.
 */
import type { EngineConfig } from '../../../config.ts'
import type { DiscoveredPod } from '../../../config/discover.ts'
import type { Log } from '../../../ports/log.ts'
import { abortableWait } from './abortable-wait.ts'
import type { KubernetesAccess } from './access.ts'
import { type Change, listWatch, type WatchTimes } from './list-watch.ts'
import { isReady, type Pod, portOf } from './pod.ts'
import { ANNOTATION_VALUES, invalidAnnotations, isActive, kvEventsPortOf, weightOf } from './pod-annotations.ts'
import { WatchFailures } from './watch-failure.ts'

/** Time limit of a poll, milliseconds. */
const POLL_LIMIT_MS = 2_000

/** Interval of polls before the first answer, milliseconds. */
const FIRST_POLL_MS = 250

/** Which pods, and which of their ports have a server. */
interface PodQuery {
  readonly namespace: string
  /** Label selector. */
  readonly selector: string
  /** Numbers or names of ports; null: the port of the template's URL. Several: the ports of data-parallel ranks. */
  readonly ports: readonly (string | number | null)[]
}

/** One server of a pod. */
interface TrackedServer {
  pod: Pod
  /** Position of its port in the query. */
  readonly at: number
  /** null: not read yet. */
  models: readonly string[] | null
  /** Called when the models were read once or need not be, and when the pod is no longer polled. */
  readonly settled: () => void
  readonly settling: Promise<void>
  /** Ends the polls of this pod; null: it is not Ready, so it is not polled. */
  polling: AbortController | null
}

export interface PodSelectionParts {
  readonly access: KubernetesAccess
  readonly log: Log
  readonly times?: WatchTimes | undefined
  /** Called when the pods that can take requests differ from before. */
  changed(): void
}

export class PodSelection {
  /** Interval at which ready pods are polled, milliseconds. */
  intervalMs = Infinity
  /** Resolves when the first list has arrived and its ready pods were polled once. */
  readonly listed: Promise<void>
  readonly #resolveListed: () => void
  readonly #parts: PodSelectionParts
  readonly #template: EngineConfig
  readonly #query: PodQuery
  /** By uid of the pod. */
  readonly #pods = new Map<string, readonly TrackedServer[]>()
  readonly #end = new AbortController()
  readonly #reported = new Set<string>()
  readonly #failures: WatchFailures
  #found: readonly DiscoveredPod[] = []

  /** @param template settings of the engines */
  constructor(template: EngineConfig, query: PodQuery, parts: PodSelectionParts) {
    this.#parts = parts
    this.#template = template
    this.#query = query
    this.#failures = new WatchFailures(parts.log, 'pods', query.namespace)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.listed = promise
    this.#resolveListed = resolve
    void this.#run()
  }

  /** Pods that can take requests, sorted by address. */
  get found(): readonly DiscoveredPod[] {
    return this.#found
  }

  close(): void {
    this.#end.abort()
    for (const { polling } of this.#servers()) polling?.abort()
    this.#resolveListed()
  }

  #servers(): readonly TrackedServer[] {
    return [...this.#pods.values()].flat()
  }

  async #run(): Promise<void> {
    const { namespace, selector } = this.#query
    const changes = listWatch<Pod>({
      access: this.#parts.access,
      path: `/api/v1/namespaces/${namespace}/pods`,
      selectors: { labelSelector: selector },
      signal: this.#end.signal,
      failed: (error) => this.#failures.report(error),
      ...(this.#parts.times === undefined ? {} : { times: this.#parts.times }),
    })
    for await (const change of changes) {
      if (this.#end.signal.aborted) return
      this.#failures.recovered()
      this.#apply(change)
      this.#publish()
    }
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
    const polled = this.#servers().filter(({ polling }) => polling !== null)
    void Promise.all(polled.map(({ settling }) => settling)).then(this.#resolveListed)
  }

  #set(pod: Pod): void {
    const { uid } = pod.metadata
    const servers = this.#pods.get(uid) ?? this.#query.ports.map((_, at) => track(pod, at))
    this.#pods.set(uid, servers)
    for (const server of servers) {
      server.pod = pod
      if (isReady(pod) && this.#portOf(server) !== undefined) {
        if (server.polling === null) void this.#poll(server, (server.polling = new AbortController()).signal)
      } else {
        server.polling?.abort()
        server.polling = null
        server.settled()
      }
    }
  }

  #delete(uid: string): void {
    for (const { polling, settled } of this.#pods.get(uid) ?? []) {
      polling?.abort()
      settled()
    }
    this.#pods.delete(uid)
    this.#reported.delete(uid)
  }

  /** Reads a server's models periodically, if they matter. A failed request leaves the last response. */
  async #poll(tracked: TrackedServer, signal: AbortSignal): Promise<void> {
    this.#check(tracked.pod)
    if (this.#template.kubernetes!.match === 'all') return tracked.settled()
    while (!signal.aborted) {
      const isKnown = await this.#readModels(tracked, signal)
      if (signal.aborted) return
      this.#publish()
      tracked.settled()
      await abortableWait(isKnown ? this.intervalMs : FIRST_POLL_MS, signal)
    }
  }

  /** Returns false if the pod's models are still unknown. */
  async #readModels(tracked: TrackedServer, signal: AbortSignal): Promise<boolean> {
    const models = await this.#get(tracked, '/v1/models', signal)
    if (signal.aborted) return false
    const list = (models as { data?: readonly { id?: unknown }[] } | null)?.data
    if (Array.isArray(list)) tracked.models = list.map((model) => String((model as { id?: unknown } | null)?.id))
    return tracked.models !== null
  }

  /** JSON of a path of a server; null: another status than 200, no JSON or no answer. */
  async #get(server: TrackedServer, path: string, signal: AbortSignal): Promise<unknown> {
    const { key, headers, url: written } = this.#template
    const url = new URL(written)
    const address = server.pod.status!.podIP!
    url.hostname = address.includes(':') ? `[${address}]` : address
    const port = this.#portOf(server)
    if (typeof port === 'number') url.port = String(port)
    try {
      const response = await fetch(`${url.origin}${url.pathname.replace(/\/+$/, '')}${path}`, {
        headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(POLL_LIMIT_MS)]),
      })
      if (response.ok) return (await response.json()) as unknown
      await response.body?.cancel()
    } catch {
      // The next poll repeats it.
    }
    return null
  }

  /** Port of the server; null: that of the URL; undefined: the pod does not have it. */
  #portOf({ pod, at }: TrackedServer): number | null | undefined {
    const { ports } = this.#query
    const port = ports[at]!
    if (port === null) return null
    const number = portOf(pod, port)
    return number === null || !isActive(pod, number) ? undefined : number
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
      next: `Use ${ANNOTATION_VALUES}.`,
    })
  }

  #publish(): void {
    const found = this.#servers()
      .filter((one) => one.polling !== null && this.#isKnown(one))
      .map((one) => this.#foundPod(one))
      .sort(byAddress)
    if (JSON.stringify(found) === JSON.stringify(this.#found)) return
    const [before, after] = [namesOf(this.#found), namesOf(found)]
    this.#found = found
    const { namespace, selector } = this.#query
    this.#parts.log.info('pods_found', {
      namespace,
      selector,
      added: [...after].filter((name) => !before.has(name)),
      gone: [...before].filter((name) => !after.has(name)),
      pods: found.length,
    })
    this.#parts.changed()
  }

  /** Whether its models have been read, if they matter. */
  #isKnown({ models }: TrackedServer): boolean {
    return this.#template.kubernetes!.match === 'all' || models !== null
  }

  #foundPod(server: TrackedServer): DiscoveredPod {
    const { pod, models, at } = server
    const kvEventsPort = kvEventsPortOf(pod)
    return {
      name: pod.metadata.name,
      address: pod.status!.podIP!,
      port: this.#portOf(server) ?? null,
      labels: pod.metadata.labels ?? {},
      models,
      weight: weightOf(pod),
      // vLLM's ranks publish at consecutive ports.
      kvEventsPort: kvEventsPort === null ? null : kvEventsPort + at,
      rank: this.#query.ports.length > 1 ? at : null,
    }
  }
}

const byAddress = (one: DiscoveredPod, other: DiscoveredPod): number =>
  one.address === other.address ? (one.port ?? 0) - (other.port ?? 0) : one.address < other.address ? -1 : 1

const namesOf = (pods: readonly DiscoveredPod[]): ReadonlySet<string> => new Set(pods.map(({ name }) => name))

function track(pod: Pod, at: number): TrackedServer {
  const { promise: settling, resolve: settled } = Promise.withResolvers<void>()
  return { pod, at, models: null, settled, settling, polling: null }
}
