import { resolve as pathFrom } from 'node:path'
import type { Config, RecordConfig } from '../../config.ts'
import { isLoopback } from '../../config/address.ts'
import { enginesAtOwnAddress, reportsShareMainPort } from '../../config/listen-conflicts.ts'
import { summarise } from '../../config/summary.ts'
import { parseThreads } from '../../config/threads.ts'
import { isServerUrl } from '../../config/url-fields.ts'
import { Discovery } from '../../platform/node/discovery.ts'
import { ownAddresses, systemLookup } from '../../platform/node/dns-lookup.ts'
import { fileFingerprint } from '../../platform/node/file-fingerprint.ts'
import { configVariable, loadConfig } from '../../platform/node/load-config.ts'
import { openLog } from '../../platform/node/log.ts'
import { LogExport } from '../../platform/node/otlp/log-export.ts'
import type { ReplicaState, RuntimeHooks } from '../../platform/node/ports.ts'
import { Recording, type RecordingChange } from '../../platform/node/recording.ts'
import { Replicas } from '../../platform/node/replicas/replicas.ts'
import { endedBy, untilAborted } from '../../platform/node/signals.ts'
import { type RunningGateway, startGateway } from '../../platform/node/start-gateway.ts'
import { steadyNow } from '../../platform/node/steady-clock.ts'
import { threadCount } from '../../platform/node/threads/thread-count.ts'
import type { Log } from '../../ports/log.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { levelFlag, listenFlag } from './common-flags.ts'
import { Reloader } from './reloader.ts'

export const serve: Command = {
  name: 'serve',
  summary: 'Run the gateway with a configuration.',
  examples: [
    'firstlight serve',
    'firstlight serve --config firstlight.yaml --listen 127.0.0.1:9000',
    'firstlight serve --workers auto',
  ],
  positionals: null,
  flags: {
    config: {
      type: 'string',
      short: 'c',
      value: 'FILE',
      about: 'The configuration. Default: FIRSTLIGHT_CONFIG, else ./firstlight.yaml.',
    },
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      about: 'Listen address; overrides the configuration. Port 0: any free port.',
    },
    workers: {
      type: 'string',
      value: 'N|auto',
      about:
        'Number of I/O threads; overrides the configuration. With 2 or more, one additional thread makes the ' +
        'routing decisions. auto: number of cores minus one. See docs/scale.md.',
    },
    replicas: {
      type: 'string',
      value: 'URL',
      about:
        'Valkey or Redis server over which gateways exchange their bookings, such as redis://127.0.0.1:6379; ' +
        'overrides `replicas.url`. See docs/replicas.md.',
    },
    record: {
      type: 'string',
      value: 'FILE',
      about:
        'Record the traffic as a trace for firstlight replay: times, lengths and salted hashes, no text. ' +
        'Overrides the configuration, whose `record` sets size, number and salt.',
    },
    watch: {
      type: 'boolean',
      about: 'Reload when the file changes (like SIGUSR2). Running streams continue.',
    },
    'log-level': {
      type: 'string',
      value: 'LEVEL',
      about: 'debug, info, warn, error or silent; overrides the configuration.',
    },
  },
  run: runServe,
}

async function runServe(args: Args, io: Io): Promise<number> {
  const read = () => loadConfig(args.text('config'), io.env)
  const { config: written, from, folder } = read()
  if (args.on('watch')) requireFile(from)
  const asRead = args.on('watch') ? fileFingerprint(from) : null
  const document = withFlags(written, args)
  const log = openLog(document.log.level, undefined, null, document.log.format)
  const discovery = new Discovery({ lookup: io.lookup ?? systemLookup, log, here: ownAddresses, env: io.env })
  const config = await discovery.resolve(document)
  discovery.settle(document)
  const logExport = new LogExport(log, config)
  const recording = new Recording(recordOf(config, args, folder), log)
  // Register the handler first. Without one, SIGUSR2 would end the process.
  let reload: (() => void) | null = null
  io.onReload?.(() => reload?.())
  // Reading `stop` installs the handlers. Without them, SIGTERM between the opening of the port and the start of the
  // last thread would end the process and its requests.
  const { stop, stopNow } = io
  const hooks = { middleware: recording.middleware, joinReplicas: replicasOf(config, log) }
  const gateway = await start(config, log, { folder, hooks })
  log.info('listening', { url: gateway.url, config: from, version: config.version, clusters: countsOf(config) })
  for (const note of summarise(document).notes) log.info('note', { note })
  const adopt = async (next: Config, sameFiles?: boolean): Promise<void> => {
    await keepIf(recording.adopt(recordOf(next, args, folder)), gateway.adopt(next, sameFiles))
    log.setLevel(next.log.level)
    logExport.adopt(next)
  }
  const reloader = new Reloader({
    gateway: { adopt, configRefused: (at) => gateway.configRefused(at) },
    written: document,
    config,
    discovery,
    read: () => withFlags(read().config, args),
    log,
  })
  reload = () => void reloader.reload()
  const stopWatching = asRead === null ? null : reloader.watch(from, asRead)
  const stopLooking = discovery.watch(reloader.refresh)
  await untilAborted(stop)
  stopLooking()
  stopWatching?.()
  log.info('draining', { drain_ms: reloader.running.limits.drainMs, ...endedBy(stop) })
  const { timedOut } = await gateway.stop(stopNow)
  recording.close()
  log.info('stopped', { cut: timedOut })
  await logExport.end()
  return 0
}

/** Keeps a change of the recording if the gateway adopts the configuration; reverts it otherwise. */
async function keepIf(change: RecordingChange, adopted: Promise<void>): Promise<void> {
  try {
    await adopted
  } catch (error) {
    change.undo()
    throw error
  }
  change.keep()
}

async function start(
  config: Config,
  log: Log,
  { folder, hooks }: { readonly folder: string; readonly hooks: RuntimeHooks },
): Promise<RunningGateway> {
  const count = threadCount(config.workers)
  if (count === 1) return startGateway(config, log, folder, hooks)
  log.info('threads', { count })
  // Loaded lazily: a single-threaded gateway does not need it.
  const { startThreads } = await import('../../platform/node/threads/start-threads.ts')
  return startThreads(config, log, { count, folder, hooks })
}

/** null: the gateway has no replicas. */
const replicasOf = ({ replicas }: Config, log: Log): ((own: ReplicaState) => Replicas) | null =>
  replicas === null ? null : (own) => new Replicas(replicas, { log, now: steadyNow, ...own })

function requireFile(from: string): void {
  if (from === configVariable)
    throw new UsageError(
      `The configuration is in ${configVariable}: --watch needs a file.`,
      'Name one with --config FILE.',
    )
}

/** Merges the flag and the configuration. A file named by a flag is relative to the working directory. */
function recordOf({ record }: Config, args: Args, folder: string): RecordConfig | null {
  const flag = args.text('record')
  if (flag !== null) return { ...(record ?? RECORD_DEFAULTS), file: flag }
  return record === null ? null : { ...record, file: pathFrom(folder, record.file) }
}

/** Defaults equal to those of the configuration. */
const RECORD_DEFAULTS = { maxBytes: 64 * 2 ** 20, files: 4, salt: null }

function countsOf({ clusters }: Config): Record<string, number> {
  return Object.fromEntries(
    clusters.map(({ id, pools }) => [id, pools.reduce((count, pool) => count + pool.engines.length, 0)]),
  )
}

/** Applies the flags that override the document, validated by the document's rules. */
function withFlags(config: Config, args: Args): Config {
  const level = levelFlag(args)
  const listen = listenFlag(args)
  const moved = listen === null ? config : { ...config, listen, loopback: isLoopback(listen.host) }
  if (!moved.loopback && moved.keys === null && moved.jwt === null && !moved.open) {
    throw new UsageError(
      `${args.text('listen')} is reachable from other hosts, and the configuration has no keys.`,
      'Add `keys` to it, or set `open: true`.',
    )
  }
  const [own] = enginesAtOwnAddress(moved)
  if (own !== undefined)
    throw new UsageError(
      `The engine ${own} has the listen address of this gateway: requests would loop.`,
      'Correct its url, or listen elsewhere: --listen 127.0.0.1:9000',
    )
  if (reportsShareMainPort(moved))
    throw new UsageError(
      '`ttft.listen` has the same port as `listen`. Reports need a separate port.',
      'Choose another port, such as 127.0.0.1:28886, or omit it: /ttft_report is also on the main port.',
    )
  const threaded = {
    ...moved,
    workers: threadsFlag(args) ?? moved.workers,
    replicas: replicasFlag(args, moved.replicas) ?? moved.replicas,
  }
  return level === null ? threaded : { ...threaded, log: { ...threaded.log, level } }
}

/** Defaults equal to those of the configuration. */
const REPLICAS_DEFAULTS = { cluster: false, prefix: 'firstlight', leaseMs: 15_000 }

function replicasFlag(args: Args, configured: Config['replicas']): Config['replicas'] {
  const url = args.text('replicas')
  if (url !== null && !isServerUrl(url))
    throw new UsageError(
      '--replicas must be the URL of a Valkey or Redis server.',
      'Example: --replicas redis://127.0.0.1:6379',
    )
  return url === null ? null : { ...REPLICAS_DEFAULTS, ...configured, url }
}

function threadsFlag(args: Args): Config['workers'] | null {
  const text = args.text('workers')
  const threads = text === null ? null : parseThreads(text)
  if (text !== null && threads === null)
    throw new UsageError(`--workers must be auto or a number from 1 to 128, not "${text}".`, 'Example: --workers 4')
  return threads
}
