/** `firstlight bridge` as a user runs it, between a gateway and its engines. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { cacheFolder } from './environment.ts'
import type { FleetName } from './fleets.ts'
import type { RunningGateway } from './gateway.ts'
import { freePorts, sendJson } from './http.ts'
import type { Lab } from './row.ts'
import { until } from './until.ts'

export interface BridgeStatus {
  readonly problem: string | null
  readonly resyncs: number
  readonly engines: readonly {
    readonly engine: string
    readonly reachable: boolean
    readonly complete: boolean
    readonly blocks: number
    readonly waiting: number
    readonly last_batch: number
    readonly events: number
    readonly gaps: number
    readonly restarts: number
    readonly losses: number
    readonly gateway: string | null
  }[]
}

export interface RunningBridge {
  status(): Promise<BridgeStatus>
  /** Resolves when the gateway has applied all published events. */
  settled(): Promise<void>
  stop(): Promise<void>
}

const root = fileURLToPath(new URL('../../../', import.meta.url))
/** Events reach the bridge in far less time. */
const STILL_MS = 100

/** Starts a bridge for the engines of this gateway's configuration. */
export async function startBridge(
  { processes }: Lab,
  gateway: RunningGateway,
  fleet: FleetName,
): Promise<RunningBridge> {
  const [port] = await freePorts(1)
  const file = join(cacheFolder, `gateway-${gateway.kind}-${fleet}.json`)
  const listen = `127.0.0.1:${port}`
  const command = [
    process.execPath,
    'bin/firstlight.mjs',
    'bridge',
    '--config',
    file,
    '--gateway',
    gateway.url,
    '--listen',
    listen,
    '--flush-ms',
    '0',
    '--heartbeat-ms',
    '1000',
  ]
  const running = processes.start({ what: `bridge ${fleet}`, command, folder: root })
  const status = () => sendJson<BridgeStatus>({ url: `http://${listen}`, method: 'GET', path: '/status' })
  const isWell = async () => {
    const now = await status().catch(() => null)
    return (
      now !== null &&
      now.problem === null &&
      now.engines.length > 0 &&
      now.engines.every(({ reachable, gateway: taken }) => reachable && taken === 'ok')
    )
  }
  try {
    await until(isWell, 'the bridge to reach its engines and its gateway', { limitMs: 60_000 })
  } catch (error) {
    await running.stop()
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${running.tail(20)}`, { cause: error })
  }
  const seen = async () => (await status()).engines.map(({ last_batch, waiting }) => ({ last_batch, waiting }))
  return {
    status,
    settled: async () => {
      for (let before = await seen(); ;) {
        await sleep(STILL_MS)
        const now = await seen()
        if (now.every(({ last_batch, waiting }, at) => waiting === 0 && last_batch === before[at]!.last_batch)) return
        before = now
      }
    },
    stop: () => running.stop(),
  }
}
