import { rawReports } from '../node/raw-reports.ts'
import { untilAborted } from '../../../../src/platform/node/signals.ts'
import { type HostOptions, startFleet } from '../node/fleet-host.ts'
import type { EngineOptions } from '../engine-options.ts'
import { profiles } from '../profiles.ts'
import { reportUrl } from '../ttft-reporter.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'

export const fleet: Command = {
  name: 'fleet',
  summary: 'Run simulated vLLM engines without a gateway.',
  examples: [
    'firstlight fleet --engines 2 --port 8001',
    `curl -N http://127.0.0.1:8001/v1/chat/completions -H 'content-type: application/json' -d ` +
      `'{"model":"sim","stream":true,"messages":[{"role":"user","content":"Hello"}]}'`,
    `curl -X PUT http://127.0.0.1:8003/_sim/engines/engine-0/fault -H 'content-type: application/json' -d ` +
      `'{"kind":"refuse"}'`,
  ],
  positionals: null,
  flags: {
    engines: {
      type: 'string',
      value: 'N',
      about: 'Number of engines with role `any`. Default: 4, or 0 if other roles are given.',
    },
    prefill: { type: 'string', value: 'N', about: 'Number of engines with role `prefill`.' },
    decode: { type: 'string', value: 'N', about: 'Number of engines with role `decode`.' },
    encode: { type: 'string', value: 'N', about: 'Number of engines with role `encode` (images, audio, video).' },
    port: {
      type: 'string',
      value: 'PORT',
      about: 'Port of the first engine; the others follow, then the control API. Default: free ports.',
    },
    host: { type: 'string', value: 'HOST', about: 'Address to listen on. Default: 127.0.0.1.' },
    profile: {
      type: 'string',
      value: 'NAME',
      about: `Speed and size: ${Object.keys(profiles).join(', ')}. Default: demo.`,
    },
    model: { type: 'string', value: 'NAME', about: 'Served model name. Default: sim.' },
    'api-key': { type: 'string', value: 'KEY', about: 'Require this key for /v1, as vllm serve --api-key does.' },
    'max-num-seqs': { type: 'string', value: 'N', about: 'Maximum batch size in requests. Default: from the profile.' },
    'cache-blocks': {
      type: 'string',
      value: 'N',
      about: 'Capacity of the KV cache in blocks. Default: from the profile.',
    },
    'block-size': { type: 'string', value: 'N', about: 'Tokens per block. Default: from the profile.' },
    'kv-events': {
      type: 'boolean',
      about:
        'Publish KV events on separate ports, as vLLM does; GET /kv_event_sources lists them. Needs the ' +
        'package zeromq.',
    },
    'max-num-queued-reqs': {
      type: 'string',
      value: 'N',
      about: 'Maximum number of waiting requests; more are refused.',
    },
  },
  run: runFleet,
}

/** Runs until `stop` aborts. */
async function runFleet(args: Args, io: Io): Promise<number> {
  const url = reportsTo(io)
  // Reading `stop` installs the handlers, before a port opens.
  const { stop } = io
  const running = await startFleet({ ...fleetOptions(args), report: url === null ? null : rawReports(url) })
  if (url !== null) io.out(`reports   ${url.href}`)
  for (const engine of running.engines) io.out(`${engine.settings.id}  ${engine.url}  ${engine.settings.role}`)
  io.out(`control   ${running.controlUrl}/_sim/engines`)
  await untilAborted(stop)
  await running.close()
  return 0
}

/** Reads the report address from the environment, like engines with the TTFT patch. */
function reportsTo({ env }: Io): URL | null {
  try {
    return reportUrl(env)
  } catch {
    throw new UsageError(
      `VLLM_TTFT_REPORT_URL is "${env['VLLM_TTFT_REPORT_URL']}", which is not a URL.`,
      'Example: VLLM_TTFT_REPORT_URL=http://127.0.0.1:28886/ttft_report',
    )
  }
}

function fleetOptions(args: Args): HostOptions {
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
    engines: engineOptions(args),
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
function engineOptions(args: Args): number | EngineOptions[] {
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
  const options = [
    ...enginesOf('encode', encode ?? 0),
    ...enginesOf('prefill', prefill ?? halves),
    ...enginesOf('decode', decode ?? halves),
    ...enginesOf('any', any),
  ]
  if (options.length === 0)
    throw new UsageError('The number of engines is 0.', 'Give at least one engine, as in --engines 1.')
  return options
}

function enginesOf(role: NonNullable<EngineOptions['role']>, wanted: number): EngineOptions[] {
  return Array.from({ length: wanted }, (_, index) => ({ id: `${role === 'any' ? 'engine' : role}-${index}`, role }))
}

const count = (args: Args, flag: string): number | null => args.whole(flag, { min: 1, max: 100_000_000 })
