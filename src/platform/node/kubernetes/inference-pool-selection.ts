/** Pods of an InferencePool: watches the pool, and the pods that it selects. */
import type { EngineConfig } from '../../../config.ts'
import type { DiscoveredPod } from '../../../config/discover.ts'
import { type InferencePool, type PoolQuery, poolsPath, readPool } from './inference-pool.ts'
import { type Change, listWatch } from './list-watch.ts'
import { PodSelection, type PodSelectionParts } from './pod-selection.ts'
import { WatchFailures } from './watch-failure.ts'

export class InferencePoolSelection {
  /** Resolves when the pool and its pods have been listed, or when there is no pool that can be used. */
  readonly listed: Promise<void>
  readonly #resolveListed: () => void
  /** Why the pool's newest version is not used; null: it is, or there is none. */
  problem: string | null = null
  readonly #parts: PodSelectionParts
  readonly #template: EngineConfig
  readonly #name: string
  readonly #namespace: string
  readonly #end = new AbortController()
  readonly #failures: WatchFailures
  #intervalMs = Infinity
  #pods: PodSelection | null = null
  /** Pods of a changed pool, until they have been listed. */
  #next: PodSelection | null = null
  #query = ''

  constructor(template: EngineConfig, parts: PodSelectionParts) {
    this.#parts = parts
    this.#template = template
    this.#name = template.kubernetes!.pool!
    this.#namespace = template.kubernetes!.namespace ?? parts.access.namespace
    this.#failures = new WatchFailures(parts.log, 'inferencepools.inference.networking.k8s.io', this.#namespace)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.listed = promise
    this.#resolveListed = resolve
    void this.#run()
  }

  get found(): readonly DiscoveredPod[] {
    return this.#pods?.found ?? []
  }

  get intervalMs(): number {
    return this.#intervalMs
  }

  set intervalMs(ms: number) {
    this.#intervalMs = ms
    for (const pods of [this.#pods, this.#next]) if (pods !== null) pods.intervalMs = ms
  }

  close(): void {
    this.#end.abort()
    for (const pods of [this.#pods, this.#next]) pods?.close()
    this.#next = null
    this.#resolveListed()
  }

  async #run(): Promise<void> {
    const { access, times } = this.#parts
    const changes = listWatch<InferencePool>({
      access,
      path: poolsPath(this.#namespace),
      selectors: { fieldSelector: `metadata.name=${this.#name}` },
      signal: this.#end.signal,
      failed: (error) => this.#failures.report(error),
      ...(times === undefined ? {} : { times }),
    })
    for await (const change of changes) {
      if (this.#end.signal.aborted) return
      this.#failures.recovered()
      this.#apply(change)
    }
  }

  #apply(change: Change<InferencePool>): void {
    const objects = change.type === 'list' ? change.items : [change.item]
    const pool = objects.find(({ metadata }) => metadata.name === this.#name)
    if (pool !== undefined && change.type !== 'delete') this.#read(pool)
    else if (pool !== undefined || change.type === 'list') this.#gone()
  }

  #read(pool: InferencePool): void {
    const query = readPool(pool)
    if ('problem' in query) return this.#reject(query.problem)
    if (this.problem !== null) this.#setProblem(null)
    const { selector, ports } = query
    const key = JSON.stringify([selector, ports])
    if (key === this.#query) return
    this.#query = key
    this.#log(query)
    const pods = new PodSelection(
      this.#template,
      { namespace: this.#namespace, selector, ports },
      { ...this.#parts, changed: () => this.#pods === pods && this.#parts.changed() },
    )
    pods.intervalMs = this.#intervalMs
    this.#next?.close()
    this.#next = pods
    void pods.listed.then(() => this.#use(pods))
  }

  /** Replaces the pods of the pool's former version, which serve until those of the new one are known. */
  #use(pods: PodSelection): void {
    if (this.#next !== pods) return
    this.#next = null
    this.#pods?.close()
    this.#pods = pods
    this.#resolveListed()
    this.#parts.changed()
  }

  /** The version that is in use, if any, stays in use. */
  #reject(problem: string): void {
    if (problem === this.problem) return
    this.#parts.log.warn('kubernetes_resource_malformed', {
      kind: 'InferencePool',
      namespace: this.#namespace,
      name: this.#name,
      why: problem,
      next: 'Its last good version stays in use. Correct the resource.',
    })
    this.#setProblem(problem)
    this.#resolveListed()
  }

  #setProblem(problem: string | null): void {
    this.problem = problem
    this.#parts.changed()
  }

  #gone(): void {
    this.#parts.log.warn('inference_pool_missing', {
      namespace: this.#namespace,
      name: this.#name,
      next: 'It has no engines until the InferencePool exists.',
    })
    this.#query = ''
    this.problem = null
    for (const pods of [this.#pods, this.#next]) pods?.close()
    this.#pods = this.#next = null
    this.#resolveListed()
    this.#parts.changed()
  }

  #log({ selector, ports, picker }: PoolQuery): void {
    this.#parts.log.info('inference_pool_read', {
      namespace: this.#namespace,
      name: this.#name,
      selector,
      ports,
      ...(picker === null ? {} : { picker }),
    })
  }
}
