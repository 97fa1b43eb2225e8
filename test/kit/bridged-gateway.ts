/** Simulated engines that publish KV events, a bridge, and a gateway. */
import { parseConfig } from '../../src/config/parse.ts'
import { startBridge, type RunningBridge } from '../../src/cli/bridge/bridge.ts'
import type { EngineStatus } from '../../src/cli/bridge/status.ts'
import { enginesIn } from '../../src/cli/bridge/engines.ts'
import { locateEvents } from '../../src/cli/bridge/event-endpoints.ts'
import { zmqSockets } from '../../src/cli/bridge/sockets.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { KvPublisher, type KvPublisherOptions } from '../../packages/simulator/src/node/kv-publisher.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'

export const never = new AbortController().signal
export const BLOCK_TOKENS = 16
const KEY = 'bridge-secret'

export interface BridgedGatewayOptions {
  readonly engines?: number
  readonly cacheBlocks?: number
  readonly publish?: KvPublisherOptions
  readonly pool?: Readonly<Record<string, unknown>>
}

export interface BridgedGateway {
  readonly fleet: RunningFleet
  readonly bridge: RunningBridge
  readonly lines: readonly string[]
  publisher(engine: number): KvPublisher
  /** Serves a prompt of token ids. Returns its predicted and reported cached tokens. */
  ask(
    prompt: readonly number[],
    more?: Readonly<Record<string, unknown>>,
  ): Promise<{
    readonly engine: string
    readonly predicted: number
    readonly reported: number
    readonly output: number
  }>
  status(engine: number): EngineStatus
  /** Resolves when the gateway has applied all published events. */
  caughtUp(): Promise<void>
  gatewayMetrics(): Promise<string>
  /** Disconnects the bridge from the engine and connects it again. */
  rejoin(engine: number): Promise<void>
  /** Starts another gateway process on the same port. */
  restartGateway(): Promise<void>
  close(): Promise<void>
}

export async function openBridgedGateway({
  engines = 1,
  cacheBlocks = 400,
  publish = {},
  pool = {},
}: BridgedGatewayOptions = {}): Promise<BridgedGateway> {
  const fleet = await startFleet({
    engines,
    port: ownPorts(engines + 1),
    kvEvents: true,
    publish,
    costModel: { stepMs: 0 },
    limits: { blockTokens: BLOCK_TOKENS, cacheBlocks, maxModelLen: 4096 },
  })
  const lines: string[] = []
  const log = openLog('debug', { write: (line) => void lines.push(line) })
  const config = parseConfig(
    {
      listen: `127.0.0.1:${ownPorts(1)}`,
      bridge: { secret: KEY },
      clusters: [
        {
          id: 'one',
          pools: [
            {
              model: 'sim',
              block_tokens: BLOCK_TOKENS,
              engines: fleet.engines.map(({ settings }, at) => ({ id: settings.id, url: fleet.urls[at] })),
              ...pool,
            },
          ],
        },
      ],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  let gateway: RunningGateway = await startGateway(config, log)
  const { url } = gateway
  const found = await Promise.all(enginesIn(config).map((engine) => locateEvents(engine, log, never)))
  const bridge = startBridge({
    engines: [],
    open: await zmqSockets(2_000),
    log,
    gateway: url,
    key: KEY,
    flushMs: 0,
    heartbeatMs: 500,
    checkMs: 200,
  })
  const join = (engine: number) => bridge.join(Promise.resolve(found[engine]!))
  const leave = found.map((_, at) => join(at))
  await until(() => bridge.status().engines.length === engines)
  const publisher = (engine: number) => fleet.engines[engine]!.events as KvPublisher
  const status = (engine: number) => bridge.status().engines[engine]!
  return {
    fleet,
    bridge,
    lines,
    publisher,
    status,
    ask: (prompt, more = {}) => ask(url, prompt, more),
    caughtUp: async () =>
      void (await until(() =>
        fleet.engines.every((_, at) => {
          const { last_batch: last, waiting, reachable: isReachable, gateway: taken } = status(at)
          return isReachable && waiting === 0 && last === publisher(at).published - 1 && taken === 'ok'
        }),
      )),
    gatewayMetrics: async () => (await fetch(`${url}/metrics`)).text(),
    async rejoin(engine) {
      await leave[engine]!()
      leave[engine] = join(engine)
      await until(() => bridge.status().engines.length === engines)
    },
    async restartGateway() {
      await gateway.stop(AbortSignal.abort())
      gateway = await startGateway(config, log)
    },
    async close() {
      await bridge.close()
      await gateway.stop(AbortSignal.abort())
      await fleet.close()
    },
  }
}

async function ask(url: string, prompt: readonly number[], more: Readonly<Record<string, unknown>>) {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim', prompt, max_tokens: 4, ...more }),
  })
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  const { usage } = (await response.json()) as {
    usage: { completion_tokens: number; prompt_tokens_details: { cached_tokens: number } }
  }
  const id = response.headers.get('x-firstlight-decision')?.split(';')[0] ?? ''
  const decision = (await (await fetch(`${url}/v1/firstlight/decisions/${id}`)).json()) as {
    predicted_cached_tokens: number
    placement: { engine: string }
  }
  return {
    engine: decision.placement.engine,
    predicted: decision.predicted_cached_tokens,
    reported: usage.prompt_tokens_details.cached_tokens,
    output: usage.completion_tokens,
  }
}

/** Whether the optional package is installed. */
export async function hasZmq(): Promise<boolean> {
  return zmqSockets().then(
    () => true,
    () => false,
  )
}
