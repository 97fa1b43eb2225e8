/** From a configuration to a gateway that listens. */
import type { Config } from '../../config.ts'
import { createGateway } from '../../gateway.ts'
import type { Log, Ports } from '../../ports.ts'
import { StatsLines } from '../../telemetry/stats-lines.ts'
import { openVocabularies } from '../../vocabulary.ts'
import { diskAssets } from './assets.ts'
import type { Drained } from './drain.ts'
import { type Between, nodePorts } from './ports.ts'
import { listenForReports } from './report-listener.ts'
import { listen } from './serve.ts'
import { fileVocabularies } from './vocabulary.ts'

export interface RunningGateway {
  readonly url: string
  /** `host:port` of `ttft.listen`; null: none. */
  readonly reports: string | null
  /** Ends in order; `now` cuts the waiting short. */
  stop(now: AbortSignal): Promise<Drained>
}

/**
 * `folder`: where relative names of vocabularies start. Rejects with a VocabularyError, or with the system's error when
 * the port cannot be had.
 */
export async function startGateway(config: Config, log: Log, folder = '.', between?: Between): Promise<RunningGateway> {
  const vocabularies = await openVocabularies(tokenizersOf(config), fileVocabularies(folder))
  const ports = nodePorts(config, log, between)
  try {
    const gateway = createGateway(config, ports, {
      assets: diskAssets(),
      vocabularyOf: ({ tokenizer }) => (tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null)),
    })
    const listening = await listen(gateway, {
      ...config.listen,
      drainMs: config.limits.drainMs,
      log,
    })
    const { enabled, listen: reportsAt } = config.ttft
    const reports = enabled && reportsAt !== null ? await listenForReports(gateway, reportsAt) : null
    if (reports !== null) log.info('takes_reports', { address: reports.address })
    const stopStats = statsForever(config, ports)
    return {
      url: listening.url,
      reports: reports?.address ?? null,
      async stop(now) {
        const drained = await listening.stop(now)
        stopStats()
        await reports?.close()
        ports.close()
        return drained
      },
    }
  } catch (error) {
    ports.close()
    throw error
  }
}

/** `log.stats_interval_s`. The answer ends it. */
function statsForever(config: Config, ports: Ports): () => void {
  const { statsIntervalMs } = config.log
  if (statsIntervalMs === 0) return () => undefined
  const stats = new StatsLines(config.clusters.flatMap(({ id, pools }) => pools.map(({ model }) => ({ cluster: id, pool: model }))), ports)
  const timer = setInterval(() => void stats.write(), statsIntervalMs)
  timer.unref()
  return () => clearInterval(timer)
}

/** Names of the vocabularies the pools ask for. */
export function tokenizersOf(config: Config): string[] {
  return config.clusters.flatMap(({ pools }) => pools.map((pool) => pool.tokenizer)).filter((name) => name !== null)
}
