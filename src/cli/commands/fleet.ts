import type { EngineOptions } from '../../simulator/engine-options.ts'
import { profiles } from '../../simulator/profiles.ts'
import { startFleet, type HostOptions } from '../../platform/node/simulator-host.ts'
import { reportUrl } from '../../simulator/ttft-reporter.ts'
import { rawReports } from '../../platform/node/ttft-socket.ts'
import { UsageError, type Args, type Command, type Io } from './command.ts'
import { aborted } from './serve.ts'

export const fleet: Command = {
  name: 'fleet',
  summary: 'Run simulated vLLM engines alone, on ports of this machine.',
  examples: [
    'firstlight fleet --engines 2 --port 8001',
    `curl -N http://127.0.0.1:8001/v1/chat/completions -H 'content-type: application/json' -d '{"model":"sim","stream":true,"messages":[{"role":"user","content":"Hello"}]}'`,
    `curl -X PUT http://127.0.0.1:8003/_sim/engines/engine-0/fault -H 'content-type: application/json' -d '{"kind":"refuse"}'`,
  ],
  positionals: null,
  flags: {
    engines: {
      type: 'string',
      value: 'N',
      about: 'How many that do everything. Default: 4, or none beside engines of a role.',
    },
    prefill: { type: 'string', value: 'N', about: 'Prefill engines, for disaggregated serving.' },
    decode: { type: 'string', value: 'N', about: 'Decode engines.' },
    encode: { type: 'string', value: 'N', about: 'Engines that encode images, sounds and videos.' },
    port: {
      type: 'string',
      value: 'PORT',
      about: 'Port of the first; the others follow, the control API comes last. Default: any free ones.',
    },
    host: { type: 'string', value: 'HOST', about: 'Address to listen on. Default: 127.0.0.1.' },
    profile: {
      type: 'string',
      value: 'NAME',
      about: `Speed and size: ${Object.keys(profiles).join(', ')}. Default: demo.`,
    },
    model: { type: 'string', value: 'NAME', about: 'The model they serve. Default: sim.' },
    'api-key': { type: 'string', value: 'KEY', about: 'Guard /v1 with a key, as vllm serve does.' },
    'max-num-seqs': { type: 'string', value: 'N', about: 'Rather than what the profile says: requests in a batch.' },
    'cache-blocks': { type: 'string', value: 'N', about: 'The same: blocks the KV cache holds.' },
    'block-size': { type: 'string', value: 'N', about: 'The same: tokens in a block.' },
    'kv-events': {
      type: 'boolean',
      about:
        'Publish KV events on ports of their own, as vLLM does; GET /kv_event_sources names them. Needs the package zeromq.',
    },
    'max-num-queued-reqs': { type: 'string', value: 'N', about: 'Refuse requests beyond this many waiting ones.' },
  },
  run: runFleet,
}

/** Runs until `stop` aborts. */
async function runFleet(args: Args, io: Io): Promise<number> {
  const url = reportsTo(io)
  const running = await startFleet({ ...wantedFleet(args), report: url === null ? null : rawReports(url) })
  if (url !== null) io.out(`reports   ${url.href}`)
  for (const engine of running.engines) io.out(`${engine.settings.id}  ${engine.url}  ${engine.settings.role}`)
  io.out(`control   ${running.controlUrl}/_sim/engines`)
  await aborted(io.stop)
  await running.close()
  return 0
}

/** Reads the report address from the environment, like engines with the TTFT patch. */
function reportsTo({ env }: Io): URL | null {
  try {
    return reportUrl(env)
  } catch {
    throw new UsageError(
      `VLLM_TTFT_REPORT_URL is "${env['VLLM_TTFT_REPORT_URL']}", which is no URL.`,
      'Example: VLLM_TTFT_REPORT_URL=http://127.0.0.1:28886/ttft_report',
    )
  }
}

function wantedFleet(args: Args): HostOptions {
  const profile = args.text('profile') ?? 'demo'
  if (!Object.hasOwn(profiles, profile)) {
    throw new UsageError(`There is no profile "${profile}".`, `Profiles: ${Object.keys(profiles).join(', ')}.`)
  }
  const limits = {
    maxNumSeqs: count(args, 'max-num-seqs'),
    cacheBlocks: count(args, 'cache-blocks'),
    blockTokens: count(args, 'block-size'),
  }
  return {
    engines: wantedEngines(args),
    port: args.whole('port', { min: 0, max: 65_535 }) ?? 0,
    host: args.text('host') ?? '127.0.0.1',
    profile,
    model: args.text('model') ?? 'sim',
    kvEvents: args.on('kv-events'),
    apiKey: args.text('api-key'),
    maxNumQueuedReqs: count(args, 'max-num-queued-reqs'),
    limits: Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== null)),
  }
}

/** A split needs both roles. A missing one defaults to one engine. */
function wantedEngines(args: Args): number | EngineOptions[] {
  const wanted = (flag: string) => args.whole(flag, { min: 0, max: 256 })
  const [engines, prefill, decode, encode] = [
    args.whole('engines', { min: 1, max: 256 }),
    wanted('prefill'),
    wanted('decode'),
    wanted('encode'),
  ]
  if (prefill === null && decode === null && encode === null) return engines ?? 4
  const halves = prefill === null && decode === null ? 0 : 1
  const any = engines ?? (halves === 0 ? 1 : 0)
  const wished = [
    ...enginesOf('encode', encode ?? 0),
    ...enginesOf('prefill', prefill ?? halves),
    ...enginesOf('decode', decode ?? halves),
    ...enginesOf('any', any),
  ]
  if (wished.length === 0)
    throw new UsageError('That makes no engine at all: every count is 0.', 'Leave the zeros out, or say --engines 1.')
  return wished
}

function enginesOf(role: NonNullable<EngineOptions['role']>, wanted: number): EngineOptions[] {
  return Array.from({ length: wanted }, (_, index) => ({ id: `${role === 'any' ? 'engine' : role}-${index}`, role }))
}

const count = (args: Args, flag: string): number | null => args.whole(flag, { min: 1, max: 100_000_000 })
