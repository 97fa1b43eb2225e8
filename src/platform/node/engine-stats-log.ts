/** Logs one line per engine at an interval. */
import type { Config } from '../../config.ts'
import type { EngineDigest, PoolDigest } from '../../core/contract/pool-digest.ts'
import type { Ports } from '../../ports.ts'

type StatsPorts = Pick<Ports, 'pool' | 'now' | 'log'>

/**
 * Logs statistics every `log.stats_interval_s`. A configuration with the same interval does not delay the next line.
 */
export function logEngineStats(config: Config, ports: StatsPorts): { adopt(next: Config): void; stop(): void } {
  const stats = new EngineStatsLog(ports)
  let everyMs = 0
  let timer: NodeJS.Timeout | undefined
  const adopt = ({ log, clusters }: Config): void => {
    stats.pools = clusters.flatMap(({ id, pools }) => pools.map(({ model }) => ({ cluster: id, pool: model })))
    if (log.statsIntervalS * 1000 === everyMs) return
    everyMs = log.statsIntervalS * 1000
    clearInterval(timer)
    if (everyMs > 0) timer = setInterval(() => void stats.write(), everyMs).unref()
  }
  adopt(config)
  return { adopt, stop: () => clearInterval(timer) }
}

interface PoolRef {
  readonly cluster: string
  readonly pool: string
}

interface RequestCount {
  readonly at: number
  readonly total: number
}

/** Stores the last counts, from which it computes rates. @testing */
export class EngineStatsLog {
  pools: readonly PoolRef[] = []
  readonly #ports: StatsPorts
  /** Counts at the last line of each engine. */
  #last = new Map<string, RequestCount>()
  #before: ReadonlyMap<string, RequestCount> = new Map()

  constructor(ports: StatsPorts) {
    this.#ports = ports
  }

  /** Writes the lines now. Never rejects: a pool without an answer is logged. */
  async write(): Promise<void> {
    this.#before = this.#last
    this.#last = new Map()
    await Promise.all(this.pools.map((pool) => this.#pool(pool)))
  }

  async #pool({ cluster, pool }: PoolRef): Promise<void> {
    try {
      this.#engines(await this.#ports.pool(cluster, pool).digest())
    } catch (error) {
      this.#ports.log.warn('engine_stats_missing', { cluster, model: pool, error })
    }
  }

  #engines({ cluster, pool, engines }: PoolDigest): void {
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
