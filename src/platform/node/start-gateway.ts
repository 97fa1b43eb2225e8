/** From a configuration to a gateway that listens. */
import type { Config } from '../../config.ts'
import { createGateway } from '../../gateway.ts'
import type { Log } from '../../ports.ts'
import type { Drained } from './drain.ts'
import { nodePorts } from './ports.ts'
import { listen } from './serve.ts'

export interface RunningGateway {
  readonly url: string
  /** Ends in order; `now` cuts the waiting short. */
  stop(now: AbortSignal): Promise<Drained>
}

export async function startGateway(config: Config, log: Log): Promise<RunningGateway> {
  const ports = nodePorts(config, log)
  try {
    const listening = await listen(createGateway(config, ports), {
      ...config.listen,
      drainMs: config.limits.drainMs,
      probeEveryMs: shortestInterval(config),
      log,
    })
    return {
      url: listening.url,
      async stop(now) {
        const drained = await listening.stop(now)
        ports.close()
        return drained
      },
    }
  } catch (error) {
    ports.close()
    throw error
  }
}

function shortestInterval(config: Config): number {
  return Math.min(...config.clusters.flatMap(({ pools }) => pools.map((pool) => pool.statsIntervalMs)))
}
