/** Facts about a pool's LMCache service that lookups need: read once, and again after changes. */
import * as z from 'zod/mini'
import type { InstanceMap } from '../../core/lmcache/instance-map.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { CacheSource, CallLimits } from './cache-source.ts'
import { readAs, requestJson } from './request-json.ts'

interface LmcacheMetadataOptions {
  readonly ports: Pick<Ports, 'origin' | 'now' | 'log'>
  readonly targets: ReadonlyMap<string, EngineTarget>
  readonly map: InstanceMap
  /** null: only engines are asked. */
  readonly source: CacheSource | null
  /** As configured. null: read from the engines. */
  readonly model: string | null
  readonly worldSize: number | null
  /** Model name as the engines serve it. */
  readonly servedModel: string
}

/** Time limit of a call, ms. No request waits for it. */
const CALL_MS = 2_000

/** Age, ms, after which the facts are read again, because engines move and coordinators restart. */
const FRESH_MS = 60_000

/** Delay, ms, of the next reading after a failure or an unknown instance. */
const SOON_MS = 5_000

/** Time, ms, after which a reading counts as lost. On Workers it may end with the request that started it. */
const LOST_AFTER_MS = 10_000

const modelList = z.object({ data: z.array(z.object({ id: z.string(), root: z.nullish(z.string()) })) })

export class LmcacheMetadata {
  readonly #options: LmcacheMetadataOptions
  #model: string | null
  #worldSize: number | null
  #readAt: number | null = null
  #nextAt = -Infinity
  #reading: { readonly work: Promise<void>; readonly since: number } | null = null
  #reported = ''

  constructor(options: LmcacheMetadataOptions) {
    this.#options = options
    this.#model = options.model
    this.#worldSize = options.worldSize
  }

  get map(): InstanceMap {
    return this.#options.map
  }

  /** Model name in LMCache's keys. null: no engine has returned it yet. */
  get model(): string | null {
    return this.#model
  }

  get worldSize(): number {
    return this.#worldSize ?? 1
  }

  /**
   * Reads missing or old facts. Resolves as soon as lookups can be made, at once if they already can; never rejects.
   * `background` gets the work that continues.
   */
  ready(background: (work: Promise<unknown>) => void): Promise<void> {
    const now = this.#options.ports.now()
    const isLost = this.#reading !== null && now - this.#reading.since > LOST_AFTER_MS
    if ((this.#reading === null || isLost) && now >= this.#nextAt) {
      const work = this.#read().finally(() => (this.#reading = null))
      this.#reading = { work, since: now }
      background(work)
    }
    return this.#readAt !== null || this.#reading === null ? Promise.resolve() : this.#reading.work
  }

  /** Schedules a reading, because a result named an unknown instance. */
  sawUnknown(): void {
    this.#nextAt = Math.min(this.#nextAt, (this.#readAt ?? -Infinity) + SOON_MS)
  }

  async #read(): Promise<void> {
    const { ports, source, map } = this.#options
    // Later readings must not start while this one fails slowly.
    this.#nextAt = ports.now() + SOON_MS
    try {
      if (source === null || source.needs.model) this.#model ??= await this.#readModel()
      if (source !== null) await this.#readSource(source, { signal: AbortSignal.timeout(CALL_MS), budgetMs: CALL_MS })
      this.#readAt = ports.now()
      this.#nextAt = this.#readAt + FRESH_MS
      this.#warnOfUnresolved(map.unresolved)
    } catch (error) {
      ports.log.warn('lmcache_metadata_unreadable', { model: this.#options.servedModel, error })
    }
  }

  async #readSource(source: CacheSource, limits: CallLimits): Promise<void> {
    const { map } = this.#options
    const hosts = map.openHosts
    if (hosts.length > 0) map.adopt(await source.instances(hosts, limits))
    if (this.#worldSize === null && this.#model !== null) this.#worldSize = await source.worldSize(this.#model, limits)
  }

  /** Asks one engine: engines with different model paths share no LMCache keys anyway. */
  async #readModel(): Promise<string> {
    const { ports, targets, servedModel } = this.#options
    const errors: unknown[] = []
    for (const target of targets.values()) {
      if (target.kind === 'provider') continue
      try {
        const signal = AbortSignal.timeout(CALL_MS)
        const { data } = readAs(
          modelList,
          await requestJson(ports.origin, target, { path: '/v1/models', signal, budgetMs: CALL_MS }),
        )
        const card = data.find(({ id }) => id === servedModel) ?? data[0]
        if (card !== undefined) return card.root ?? card.id
      } catch (error) {
        errors.push(error)
      }
      if (errors.length >= MAX_FAILURES) break
    }
    throw new AggregateError(errors, 'no engine names its model')
  }

  /** Warns once per set of engines: their caches stay invisible until an operator acts. */
  #warnOfUnresolved(unresolved: readonly string[]): void {
    const ids = unresolved.join()
    if (ids === this.#reported) return
    this.#reported = ids
    if (ids !== '')
      this.#options.ports.log.warn('lmcache_instance_unknown', {
        model: this.#options.servedModel,
        engines: unresolved,
        next: 'set lmcache_instance on them',
      })
  }
}

const MAX_FAILURES = 3
