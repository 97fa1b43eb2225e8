import type { Config } from '../../../config.ts'
import type { Log } from '../../../ports.ts'
import { type BridgeOptions, type RunningBridge, startBridge } from '../bridge/bridge.ts'
import type { BridgedEngine } from '../bridge/engine-listener.ts'
import { enginesIn, located } from '../bridge/engines.ts'
import { zmqSockets } from '../bridge/sockets.ts'
import { listenForStatus } from '../bridge/status.ts'
import { loadConfig } from '../load-config.ts'
import { openLog } from '../log.ts'
import { UsageError, type Args, type Command, type Io } from './command.ts'
import { gatewayFlag, levelFlag, listenFlag } from './common-flags.ts'
import { aborted } from './serve.ts'

export const bridge: Command = {
  name: 'bridge',
  summary: 'Tell a gateway what its engines cache, from their KV events.',
  examples: [
    'firstlight bridge --config firstlight.yaml --gateway http://127.0.0.1:8080',
    'firstlight bridge --gateway https://edge.example.com --cluster paris --model qwen --block-tokens 16 --engine a --events tcp://10.0.0.1:5557 --replay tcp://10.0.0.1:5558',
  ],
  positionals: null,
  instead: { events: ['config'] },
  flags: {
    gateway: { type: 'string', value: 'URL', about: 'The gateway, without a path. Default: http://127.0.0.1:8080.' },
    key: { type: 'string', value: 'KEY', about: 'The gateway’s bridge.secret or admin key. Default: the variable FIRSTLIGHT_BRIDGE_KEY, else as the configuration says.' },
    config: { type: 'string', short: 'c', value: 'FILE', about: 'The gateway’s configuration: pools and engines are read from it. Default: FIRSTLIGHT_CONFIG, else ./firstlight.yaml.' },
    engine: { type: 'string', multiple: true, value: 'ID', about: 'Only this engine; may be repeated. With --events: the engine’s name in the gateway.' },
    events: { type: 'string', value: 'ADDRESS', about: 'One engine without a configuration: the endpoint of its events, tcp://HOST:5557.' },
    replay: { type: 'string', value: 'ADDRESS', about: 'Its replay endpoint, tcp://HOST:5558.' },
    topic: { type: 'string', value: 'TEXT', about: 'Its topic. Default: none.' },
    cluster: { type: 'string', value: 'ID', about: 'Its cluster in the gateway.' },
    model: { type: 'string', value: 'NAME', about: 'Its pool’s model in the gateway.' },
    'block-tokens': { type: 'string', value: 'N', about: 'Its pool’s block_tokens.' },
    listen: { type: 'string', value: 'HOST:PORT', about: 'Answer /status, /metrics and /health there.' },
    'flush-ms': { type: 'string', value: 'N', about: 'How long changes wait for company before they are sent. Default: 20.' },
    'heartbeat-ms': { type: 'string', value: 'N', about: 'A sign of life for a silent engine this often; without three the gateway goes by its own guesses. Default: 5000.' },
    'log-level': { type: 'string', value: 'LEVEL', about: 'debug, info, warn, error or silent. Default: info.' },
  },
  run: runBridge,
}

const STATUS_EVERY_MS = 60_000

async function runBridge(args: Args, io: Io): Promise<number> {
  const log = openLog(levelFlag(args) ?? 'info')
  const listen = listenFlag(args, '127.0.0.1:9400')
  const gateway = gatewayFlag(args, 'gateway')
  const paces = { flushMs: args.number('flush-ms', { min: 0, max: 10_000 }) ?? 20, heartbeatMs: args.number('heartbeat-ms', { min: 100, max: 200_000 }) ?? 5_000 }
  const { key, ...who } = args.text('events') === null ? fromConfig(args, io, log) : { engines: [oneEngine(args)], key: null }
  const open = await zmqSockets()
  const running = startBridge({ ...who, open, log, gateway, key: args.text('key') ?? io.env['FIRSTLIGHT_BRIDGE_KEY'] ?? key, ...paces })
  try {
    log.info('bridging', { gateway })
    await Promise.race([until(io.stop, { running, log, listen }), silent(who, io.stop)])
  } finally {
    await running.close()
  }
  return 0
}

async function until(stop: AbortSignal, { running, log, listen }: { readonly running: RunningBridge; readonly log: Log; readonly listen: ReturnType<typeof listenFlag> }): Promise<void> {
  const status = listen === null ? null : await listenForStatus(listen, () => running.status())
  if (status !== null) log.info('status', { url: status.url })
  const timer = setInterval(() => logStatus(running, log), STATUS_EVERY_MS)
  await aborted(stop)
  clearInterval(timer)
  logStatus(running, log)
  await status?.close()
}

/** Rejects when every engine has said that it publishes nothing; else it never ends. */
async function silent({ engines, later = [] }: Who, stop: AbortSignal): Promise<never> {
  const found = await Promise.all(later)
  if (engines.length === 0 && found.every((engine) => engine === null) && !stop.aborted) {
    throw new UsageError('There is no engine to listen to.', 'Start vLLM with --kv-events-config; docs/kv-events.md has the flags.')
  }
  return new Promise(() => {})
}

function logStatus(running: RunningBridge, log: Log): void {
  const { engines, ...gateway } = running.status()
  log.info('bridge', gateway)
  for (const { cluster, model, ...engine } of engines) log.info('engine', { cluster, model, ...engine })
}

type Who = Pick<BridgeOptions, 'engines' | 'later'>

/** Secrets of clients and clusters need not be known where the bridge runs: what is not set has no value here. */
const UNSET = 'not-set-here'

function fromConfig(args: Args, io: Io, log: Log): Who & { readonly key: string | null } {
  const secrets = new Proxy(io.env, { get: (env, name) => env[String(name)] ?? `${UNSET}-${String(name)}` })
  const loose = OF_EVENTS.find((flag) => args.text(flag) !== null)
  if (loose !== undefined) throw new UsageError(`--${loose} goes with --events; a configuration says it by itself.`, 'firstlight bridge --help shows both ways.')
  const { config, from } = loadConfig(args.text('config'), io.env, secrets)
  const wanted = enginesIn(config, args.texts('engine'))
  const unknown = args.texts('engine').filter((id) => !wanted.some((engine) => engine.id === id))
  if (unknown.length > 0) throw new UsageError(`${from} has no engine ${unknown.join(', ')}.`, 'Leave --engine out, or name engines of the file.')
  return { engines: [], later: wanted.map((engine) => located(engine, log, io.stop)), key: keyOf(config) }
}

function keyOf({ bridge: own, admin }: Config): string | null {
  return [own?.secret, admin?.secret].find((secret) => secret !== undefined && !secret.startsWith(UNSET)) ?? null
}

/** Flags of the one engine that --events describes. */
const OF_EVENTS = ['replay', 'topic', 'cluster', 'model', 'block-tokens'] as const

function oneEngine(args: Args): BridgedEngine {
  const needed = (flag: string): string => {
    const value = args.text(flag)
    if (value === null) throw new UsageError(`--events also needs --${flag}.`, `Example: ${bridge.examples[1]}`)
    return value
  }
  needed('block-tokens')
  return {
    cluster: needed('cluster'),
    pool: { model: needed('model'), blockTokens: args.whole('block-tokens', { min: 1, max: 4096 })! },
    id: needed('engine'),
    events: { endpoint: socketOf(args, 'events')!, replayEndpoint: socketOf(args, 'replay'), topic: args.text('topic') ?? '' },
  }
}

/** As the configuration has it: no star, which is for the side that binds. */
function socketOf(args: Args, flag: string): string | null {
  const address = args.text(flag)
  if (address === null || /^(tcp|ipc):\/\/[^\s*]+$/.test(address)) return address
  throw new UsageError(`--${flag} must be an address to connect to, got "${address}".`, `Example: --${flag} tcp://10.0.0.1:${flag === 'events' ? 5557 : 5558}`)
}
