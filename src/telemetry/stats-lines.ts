/** Logs one line per engine at an interval. */
import type { ClusterDigest, EngineDigest } from '../core/contract/contract.ts'
import type { Log, Ports } from '../ports.ts'

interface Pool {
  readonly cluster: string
  readonly pool: string
}

interface Count {
  readonly at: number
  readonly total: number
}

/** Stores the last counts, from which it computes rates. */
export class StatsLines {
  pools: readonly Pool[] = []
  readonly #ports: Pick<Ports, 'cluster' | 'now'> & { readonly log: Log }
  /** Counts at the last line of each engine. */
  #last = new Map<string, Count>()
  #before: ReadonlyMap<string, Count> = new Map()

  constructor(ports: Pick<Ports, 'cluster' | 'now' | 'log'>) {
    this.#ports = ports
  }

  /** Writes the lines now. Never rejects: a pool without an answer is logged. */
  async write(): Promise<void> {
    this.#before = this.#last
    this.#last = new Map()
    await Promise.all(this.pools.map((pool) => this.#pool(pool)))
  }

  async #pool({ cluster, pool }: Pool): Promise<void> {
    try {
      this.#engines(await this.#ports.cluster(cluster, pool).digest())
    } catch (error) {
      this.#ports.log.warn('engine_stats_missing', { cluster, model: pool, error })
    }
  }

  #engines({ cluster, pool, engines }: ClusterDigest): void {
    for (const engine of engines) {
      this.#ports.log.info('engine_stats', {
        cluster,
        model: pool,
        engine: engine.id,
        qps: this.#qps(`${cluster} ${pool} ${engine.id}`, engine),
        ...fieldsOf(engine),
      })
    }
  }

  /** Rate since the last line; null: first line. A decrease is a reset. */
  #qps(key: string, { requestsTotal }: EngineDigest): number | null {
    const at = this.#ports.now()
    const last = this.#before.get(key)
    this.#last.set(key, { at, total: requestsTotal })
    if (last === undefined || at <= last.at || requestsTotal < last.total) return null
    return rounded((requestsTotal - last.total) / ((at - last.at) / 1000))
  }
}

function fieldsOf(engine: EngineDigest): Record<string, unknown> {
  return {
    running: engine.requests,
    active_blocks: engine.activeBlocks,
    queued_prefill_s: rounded(engine.queuedPrefillS),
    hit_rate: rounded(engine.hitRate ?? null),
    ttft_ms: rounded(engine.ttftMs),
    ttft_error: rounded(engine.learned?.ttftError ?? null),
    available: engine.available,
    circuit: engine.circuit,
  }
}

const rounded = (value: number | null): number | null => (value === null ? null : Math.round(value * 1000) / 1000)
