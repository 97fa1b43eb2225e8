import { parseArgs } from 'node:util'
import { profiles } from '../../../simulator/profiles.ts'
import { startFleet, type HostOptions } from '../simulator-host.ts'

export const summary = 'Run simulated vLLM engines on ports of this machine'

export const help = `firstlight fleet: ${summary}.

Usage: firstlight fleet [--engines 4] [--port 8001] [--profile demo] [options]

  --engines N              how many (4)
  --prefill N, --decode N  instead of that: engines for disaggregated serving
  --port N                 port of the first; the others follow, the control API comes last (any free ports)
  --host H                 address to listen on (127.0.0.1)
  --profile NAME           ${Object.keys(profiles).join(', ')} (demo)
  --model NAME             the model they serve (sim)
  --api-key KEY            guard /v1 with a key, as vllm serve does
  --max-num-seqs N, --cache-blocks N, --block-size N, --max-num-queued-reqs N
                           override the profile

Example:
  firstlight fleet --engines 2 --port 8001
  curl -N http://127.0.0.1:8001/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"sim","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
  curl -X PUT http://127.0.0.1:8003/_sim/engines/engine-0/fault -d '{"kind":"refuse"}'
`

const options = {
  engines: { type: 'string', default: '4' },
  prefill: { type: 'string' },
  decode: { type: 'string' },
  port: { type: 'string', default: '0' },
  host: { type: 'string', default: '127.0.0.1' },
  profile: { type: 'string', default: 'demo' },
  model: { type: 'string', default: 'sim' },
  'api-key': { type: 'string' },
  'max-num-seqs': { type: 'string' },
  'cache-blocks': { type: 'string' },
  'block-size': { type: 'string' },
  'max-num-queued-reqs': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Runs until SIGINT or SIGTERM. Resolves with the exit code. */
export async function run(argv: readonly string[]): Promise<number> {
  const wanted = read(argv)
  if (typeof wanted === 'string') {
    process.stderr.write(`${wanted}\nSee: firstlight fleet --help\n`)
    return 2
  }
  if (wanted === null) {
    process.stdout.write(help)
    return 0
  }
  const fleet = await startFleet(wanted)
  for (const engine of fleet.engines) process.stdout.write(`${engine.settings.id}  ${engine.url}  ${engine.settings.role}\n`)
  process.stdout.write(`control   ${fleet.controlUrl}/_sim/engines\n`)
  await new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve())
    process.once('SIGTERM', () => resolve())
  })
  await fleet.close()
  return 0
}

/** The fleet that the arguments ask for; null: help; a string: what is wrong with them. */
function read(argv: readonly string[]): HostOptions | null | string {
  try {
    const { values } = parseArgs({ args: [...argv], options, strict: true })
    if (values.help === true) return null
    const count = (name: keyof typeof values, least: number): number => {
      const number = Number(values[name])
      if (!Number.isInteger(number) || number < least) throw new RangeError(`--${name} needs a whole number from ${least}, got "${values[name]}"`)
      return number
    }
    const optional = (name: keyof typeof values): number | undefined => (values[name] === undefined ? undefined : count(name, 1))
    const split = values.prefill !== undefined || values.decode !== undefined
    const roles = split
      ? [
          ...Array.from({ length: values.prefill === undefined ? 1 : count('prefill', 0) }, (_, at) => ({ id: `prefill-${at}`, role: 'prefill' as const })),
          ...Array.from({ length: values.decode === undefined ? 1 : count('decode', 0) }, (_, at) => ({ id: `decode-${at}`, role: 'decode' as const })),
        ]
      : count('engines', 1)
    const limits = { maxNumSeqs: optional('max-num-seqs'), cacheBlocks: optional('cache-blocks'), blockTokens: optional('block-size') }
    return {
      engines: roles,
      port: count('port', 0),
      host: values.host,
      profile: values.profile,
      model: values.model,
      apiKey: values['api-key'] ?? null,
      maxNumQueuedReqs: optional('max-num-queued-reqs') ?? null,
      limits: Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)),
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
