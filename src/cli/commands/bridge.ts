import type { Config } from '../../config.ts'
import { hasTemplates } from '../../config/discover.ts'
import { Discovery } from '../../platform/node/discovery.ts'
import { systemLookup } from '../../platform/node/dns-lookup.ts'
import { loadConfig } from '../../platform/node/load-config.ts'
import { openLog } from '../../platform/node/log.ts'
import { untilAborted } from '../../platform/node/signals.ts'
import type { Log } from '../../ports/log.ts'
import { type RunningBridge, startBridge } from '../bridge/bridge.ts'
import type { BridgedEngine } from '../bridge/engine-listener.ts'
import { enginesIn } from '../bridge/engines.ts'
import { Members } from '../bridge/members.ts'
import { zmqSockets } from '../bridge/sockets.ts'
import { listenForStatus } from '../bridge/status-server.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { gatewayFlag, levelFlag, listenFlag } from './common-flags.ts'

export const bridge: Command = {
  name: 'bridge',
  summary: 'Forward the KV events of vLLM engines to a gateway.',
  examples: [
    'firstlight bridge --config firstlight.yaml --gateway http://127.0.0.1:8080',
    'firstlight bridge --gateway https://edge.example.com --cluster paris --model qwen --block-tokens 16 ' +
      '--engine a --events tcp://10.0.0.1:5557 --replay tcp://10.0.0.1:5558',
  ],
  positionals: null,
  instead: { events: ['config'] },
  flags: {
    gateway: { type: 'string', value: 'URL', about: 'Base URL of the gateway. Default: http://127.0.0.1:8080.' },
    key: {
      type: 'string',
      value: 'KEY',
      about: 'The gateway’s bridge.secret or admin key. Default: FIRSTLIGHT_BRIDGE_KEY, else from the configuration.',
    },
    config: {
      type: 'string',
      short: 'c',
      value: 'FILE',
      about:
        'The gateway’s configuration, for its pools and engines. Default: FIRSTLIGHT_CONFIG, else ./firstlight.yaml.',
    },
    engine: {
      type: 'string',
      multiple: true,
      value: 'ID',
      about: 'Only this engine; repeatable. With --events: the engine’s name in the gateway.',
    },
    events: {
      type: 'string',
      value: 'ADDRESS',
      about: 'Event endpoint of one engine, without a configuration: tcp://HOST:5557.',
    },
    replay: { type: 'string', value: 'ADDRESS', about: 'Replay endpoint of that engine: tcp://HOST:5558.' },
    topic: { type: 'string', value: 'TEXT', about: 'Its topic. Default: none.' },
    cluster: { type: 'string', value: 'ID', about: 'Cluster of that engine in the gateway.' },
    model: { type: 'string', value: 'NAME', about: 'Model of that engine’s pool in the gateway.' },
    'block-tokens': { type: 'string', value: 'N', about: 'Its pool’s block_tokens.' },
    listen: { type: 'string', value: 'HOST:PORT', about: 'Serve /status, /metrics and /health at this address.' },
    'flush-ms': {
      type: 'string',
      value: 'N',
      about: 'Batching delay before changes are sent. Default: 20.',
    },
    'heartbeat-ms': {
      type: 'string',
      value: 'N',
      about:
        'Heartbeat interval for an idle engine. After three missing heartbeats the gateway uses its own ' +
        'estimates. Default: 5000.',
    },
    'log-level': { type: 'string', value: 'LEVEL', about: 'debug, info, warn, error or silent. Default: info.' },
  },
  run: runBridge,
}

const STATUS_EVERY_MS = 60_000

async function runBridge(args: Args, io: Io): Promise<number> {
  const log = openLog(levelFlag(args) ?? 'info')
  const listen = listenFlag(args, '127.0.0.1:9400')
  const gateway = gatewayFlag(args, 'gateway')
  const paces = {
    flushMs: args.number('flush-ms', { min: 0, max: 10_000 }) ?? 20,
    heartbeatMs: args.number('heartbeat-ms', { min: 100, max: 200_000 }) ?? 5_000,
  }
  const configured = args.text('events') === null ? fromConfig(args, io) : null
  const engines = configured === null ? [oneEngine(args)] : []
  const open = await zmqSockets()
  const running = startBridge({
    engines,
    open,
    log,
    gateway,
    key: args.text('key') ?? io.env['FIRSTLIGHT_BRIDGE_KEY'] ?? configured?.key ?? null,
    ...paces,
  })
  const discovery = configured === null ? null : await follow(configured, running, { log, io })
  try {
    log.info('bridging', { gateway })
    await Promise.race([
      runUntilStopped(io.stop, { running, log, listen }),
      ...(discovery === null ? [] : [rejectIfSilent(discovery.located, io.stop)]),
    ])
  } finally {
    discovery?.end()
    await running.close()
  }
  return 0
}

interface EngineDiscovery {
  /** Endpoints of the engines that answered first; null if discovery may add engines later. */
  readonly located: Promise<readonly BridgedEngine[]> | null
  end(): void
}

/** Follows the engines of a configuration and those that discovery finds later. */
async function follow(
  configured: ConfigOptions,
  running: RunningBridge,
  { log, io }: { readonly log: Log; readonly io: Io },
): Promise<EngineDiscovery> {
  const { config } = configured
  const members = new Members(running, log, io.stop)
  const discovery = new Discovery({ lookup: io.lookup ?? systemLookup, log, env: io.env })
  const update = async () => {
    const there = await discovery.resolve(config)
    discovery.settle(config)
    return { joined: members.update(enginesIn(there).filter(({ id }) => isNamed(id, configured))) }
  }
  const { joined } = await update()
  return { located: hasTemplates(config) ? null : joined, end: discovery.watch(() => void update()) }
}

/** True if `--engine` names this engine or a pattern that matches it. */
function isNamed(id: string, { config, named }: ConfigOptions): boolean {
  if (named.length === 0 || named.includes(id)) return true
  return enginesIn(config).some(
    (pattern) => pattern.config.discover !== null && named.includes(pattern.id) && id.startsWith(`${pattern.id}-`),
  )
}

async function runUntilStopped(
  stop: AbortSignal,
  {
    running,
    log,
    listen,
  }: { readonly running: RunningBridge; readonly log: Log; readonly listen: ReturnType<typeof listenFlag> },
): Promise<void> {
  const status = listen === null ? null : await listenForStatus(listen, () => running.status())
  if (status !== null) log.info('status', { url: status.url })
  const timer = setInterval(() => logStatus(running, log), STATUS_EVERY_MS)
  await untilAborted(stop)
  clearInterval(timer)
  logStatus(running, log)
  await status?.close()
}

/** Rejects when every engine has reported that it publishes nothing; otherwise never settles. */
async function rejectIfSilent(located: EngineDiscovery['located'], stop: AbortSignal): Promise<never> {
  const engines = await located
  if (engines?.length === 0 && !stop.aborted) {
    throw new UsageError(
      'No engine publishes KV events.',
      'Start vLLM with --kv-events-config; docs/kv-events.md has the flags.',
    )
  }
  return new Promise(() => {})
}

function logStatus(running: RunningBridge, log: Log): void {
  const { engines, ...gateway } = running.status()
  log.info('bridge', gateway)
  for (const { cluster, model, ...engine } of engines) log.info('engine', { cluster, model, ...engine })
}

/** Placeholder for secrets that the bridge does not need, such as client keys. */
const UNSET = 'not-set-here'

interface ConfigOptions {
  readonly config: Config
  /** Engine names or patterns; empty: all engines. */
  readonly named: readonly string[]
  readonly key: string | null
}

function fromConfig(args: Args, io: Io): ConfigOptions {
  const secrets = new Proxy(io.env, { get: (env, name) => env[String(name)] ?? `${UNSET}-${String(name)}` })
  const loose = EVENT_FLAGS.find((flag) => args.text(flag) !== null)
  if (loose !== undefined)
    throw new UsageError(
      `--${loose} needs --events; with a configuration it is read from there.`,
      'Run firstlight bridge --help for both forms.',
    )
  const { config, from } = loadConfig(args.text('config'), io.env, secrets)
  const written = enginesIn(config)
  // A sidecar knows its engine's address. Engine names contain no colons.
  const named = args.texts('engine').map((id) => id.replaceAll(':', '-'))
  const unknown = named.filter(
    (id) =>
      !written.some(
        (engine) => engine.id === id || (engine.config.discover !== null && id.startsWith(`${engine.id}-`)),
      ),
  )
  if (unknown.length > 0)
    throw new UsageError(`${from} has no engine ${unknown.join(', ')}.`, 'Omit --engine, or name engines of the file.')
  return { config, named, key: keyOf(config) }
}

function keyOf({ bridge: own, admin }: Config): string | null {
  return [own?.secret, admin?.secret].find((secret) => secret !== undefined && !secret.startsWith(UNSET)) ?? null
}

/** Flags of the one engine that --events describes. */
const EVENT_FLAGS = ['replay', 'topic', 'cluster', 'model', 'block-tokens'] as const

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
    events: {
      endpoint: socketOf(args, 'events')!,
      replayEndpoint: socketOf(args, 'replay'),
      topic: args.text('topic') ?? '',
    },
  }
}

/** Replaces `*`, which is only valid for the side that binds. */
function socketOf(args: Args, flag: string): string | null {
  const address = args.text(flag)
  if (address === null || /^(tcp|ipc):\/\/[^\s*]+$/.test(address)) return address
  throw new UsageError(
    `--${flag} must be an address to connect to, not "${address}".`,
    `Example: --${flag} tcp://10.0.0.1:${flag === 'events' ? 5557 : 5558}`,
  )
}
