import type { Config } from '../../config.ts'
import { namesIn, podTemplatesIn, singleAddressNote, withDiscovered } from '../../config/discover.ts'
import { podsText } from '../../config/pods-text.ts'
import { systemLookup } from '../../platform/node/dns-lookup.ts'
import { kubernetesAccess } from '../../platform/node/kubernetes/access.ts'
import { PodDiscovery } from '../../platform/node/kubernetes/pod-discovery.ts'
import { hasConfig, loadConfig } from '../../platform/node/load-config.ts'
import { withTimeout } from '../../timeout.ts'
import type { Endpoint } from '../doctor/ask.ts'
import { examineConfig, type ExamineOptions, examinePlaces } from '../doctor/examine.ts'
import type { Subject } from '../doctor/finding.ts'
import { countsOf, exitCodeOf, reportJson, reportLines } from '../doctor/report.ts'
import { Steps } from '../doctor/steps.ts'
import { examineWorker } from '../doctor/worker.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { asJson, outputOf } from './output-file.ts'
import { progressFlag, progressOf } from './progress-bar.ts'

export const doctor: Command = {
  name: 'doctor',
  summary: 'Check the setup of engines and caches; report problems, missing features and the flags that fix them.',
  examples: [
    'firstlight doctor http://127.0.0.1:8001',
    'firstlight doctor http://10.0.0.1:8000 http://10.0.0.9:9300 --no-generate',
    'firstlight doctor --config firstlight.yaml --brief --json doctor.json',
    'firstlight doctor --worker https://firstlight.example.workers.dev --key ADMIN_KEY',
  ],
  positionals: '[URL...]',
  flags: {
    config: {
      type: 'string',
      short: 'c',
      value: 'FILE',
      about:
        'Check all engines, caches and vocabularies of this configuration. Default, without URLs: ' +
        'FIRSTLIGHT_CONFIG, else ./firstlight.yaml.',
    },
    key: {
      type: 'string',
      value: 'KEY',
      about: 'With URLs: sent as bearer token. Default: FIRSTLIGHT_ENGINE_KEY.',
    },
    header: {
      type: 'string',
      multiple: true,
      value: 'NAME:VALUE',
      about: 'With URLs: header of every request. Repeatable.',
    },
    worker: {
      type: 'string',
      value: 'URL',
      about:
        'Check a deployed Worker: readiness, placement, shared state, load of its Durable Objects. --key is the ' +
        'admin key.',
    },
    'no-generate': {
      type: 'boolean',
      about: 'Request no completion. By default the doctor requests one or two of one token each.',
    },
    'timeout-s': {
      type: 'string',
      value: 'N',
      about: 'Time limit of each request; completions get six times as much. Default: 5.',
    },
    'idle-s': { type: 'string', value: 'N', about: 'Observe an idle connection for this long; 0: skip. Default: 6.' },
    strict: { type: 'boolean', about: 'Count warnings as problems in the exit code.' },
    brief: { type: 'boolean', about: 'Omit checks that passed.' },
    json: { type: 'string', value: 'FILE', about: 'Also write the report as JSON.' },
    ...progressFlag,
  },
  run,
}

/** Exit code 0: no problems; 1: problems; 2: unreachable or invalid command line. */
async function run(args: Args, io: Io): Promise<number> {
  const write = outputOf(args, 'json')
  const bar = progressOf('examined', args, io)
  const limitMs = (args.number('timeout-s', { min: 0.1, max: 600 }) ?? 5) * 1000
  const options: DoctorOptions = {
    limitMs,
    generateMs: 6 * limitMs,
    idleMs: (args.number('idle-s', { min: 0, max: 600 }) ?? 6) * 1000,
    generate: !args.on('no-generate'),
    progress: (done, of, underWay) => bar.draw(done, of, waitingFor(underWay)),
  }
  const subjects = await subjectsOf(args, io, options).finally(() => bar.clear())
  for (const line of reportLines(subjects, args.on('brief'))) io.out(line)
  const exitCode = exitCodeOf(countsOf(subjects), args.on('strict'))
  write(() => asJson(reportJson(subjects, { exitCode, at: new Date().toISOString() })))
  return exitCode
}

type DoctorOptions = Omit<ExamineOptions, 'folder'>

async function subjectsOf(args: Args, io: Io, options: DoctorOptions): Promise<readonly Subject[]> {
  if (args.text('worker') !== null) return byWorker(args, io, options)
  return args.positionals.length > 0 ? byUrl(args, io, options) : byConfig(args, io, options)
}

/** Servers that are named in the progress. */
const NAMED = 3

function waitingFor(underWay: readonly string[]): string {
  if (underWay.length === 0) return ''
  const more = underWay.length > NAMED ? ` and ${underWay.length - NAMED} more` : ''
  return `waiting for ${underWay.slice(0, NAMED).join(', ')}${more}`
}

/** Time between two readings of a Worker's metrics, milliseconds. */
const SAMPLE_MS = 2_000

async function byWorker(args: Args, io: Io, { limitMs, progress }: DoctorOptions): Promise<readonly Subject[]> {
  if (args.positionals.length > 0 || args.text('config') !== null)
    throw new UsageError(
      '--worker cannot be combined with URLs or --config.',
      'Example: firstlight doctor --worker URL --key KEY',
    )
  const place = placeOf(args.text('worker')!, requestHeaders(args, io))
  const examine = () => examineWorker(place, { limitMs, sampleMs: SAMPLE_MS })
  return [await new Steps(1, progress).run(new URL(place.url).host, examine)]
}

/** Headers of `--key` and `--header`. */
function requestHeaders(args: Args, io: Io): Readonly<Record<string, string>> {
  const key = args.text('key') ?? io.env['FIRSTLIGHT_ENGINE_KEY'] ?? null
  return {
    ...Object.fromEntries(args.texts('header').map(headerOf)),
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
  }
}

function byUrl(args: Args, io: Io, options: DoctorOptions): ReturnType<typeof examinePlaces> {
  if (args.text('config') !== null)
    throw new UsageError('firstlight doctor needs either URLs or --config, not both.', `Example: ${doctor.examples[0]}`)
  const headers = requestHeaders(args, io)
  return examinePlaces(
    args.positionals.map((url) => placeOf(url, headers)),
    { ...options, folder: '.' },
  )
}

async function byConfig(args: Args, io: Io, options: DoctorOptions): ReturnType<typeof examineConfig> {
  const file = args.text('config')
  if (file === null && !hasConfig(io.env))
    throw new UsageError(
      'No engine is given: ./firstlight.yaml does not exist and FIRSTLIGHT_CONFIG is not set.',
      `Name them: ${doctor.examples[0]}`,
    )
  for (const flag of ['key', 'header']) {
    if (args.texts(flag).length > 0)
      throw new UsageError(
        `--${flag} needs URLs; a configuration has its own keys.`,
        `Example: ${doctor.examples[0]} --${flag} …`,
      )
  }
  const { config, folder } = loadConfig(file, io.env)
  return examineConfig(await withDiscoveredEngines(config, io), { ...options, folder })
}

/**
 * Resolves names to one engine per address, and selections to one per ready pod. A name without an address is kept,
 * and its check reports the cause.
 */
async function withDiscoveredEngines(config: Config, { lookup = systemLookup, env, err }: Io): Promise<Config> {
  const found = await Promise.all(
    Array.from(namesIn(config).keys(), async (name) => [name, await lookup(name).catch(() => [name])] as const),
  )
  const addresses = new Map(found)
  for (const [name, list] of found) {
    const note = singleAddressNote(name, list)
    if (note !== null && list[0] !== name) err(`warning: ${note}`)
  }
  const warn = (event: string, fields: Readonly<Record<string, unknown>> = {}) => err(`${event} ${asJson(fields)}`)
  const log = { debug: () => undefined, info: () => undefined, warn, error: warn }
  const pods = new PodDiscovery({ access: () => kubernetesAccess(env), log, changed: () => undefined })
  try {
    await withTimeout(PODS_MS, pods.start(config).listed)
    for (const [template] of podTemplatesIn(config))
      if (pods.podsOf(template).length === 0)
        err(`${template.id}: no ready pod with ${podsText(template.kubernetes!)} serves a model.`)
    return withDiscovered(config, {
      addressesOf: (name) => addresses.get(name)!,
      podsOf: (template) => pods.podsOf(template),
    })
  } finally {
    pods.close()
  }
}

/** Time limit for the list of pods and their models, milliseconds. */
const PODS_MS = 5_000

function placeOf(text: string, headers: Readonly<Record<string, string>>): Endpoint {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError(
      `"${text.replace(/\/\/[^/@]*@/, '//…@')}" is not the URL of a server.`,
      'Example: http://127.0.0.1:8000',
    )
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`The URL of ${url.host} has a password in it.`, 'Give it with --key or --header.')
  // Users copy the base URL of their clients.
  return { url: (url.origin + url.pathname).replace(/\/+$/, '').replace(/\/v1$/, ''), headers }
}

function headerOf(text: string): [string, string] {
  const parts = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.+)$/.exec(text)
  if (parts === null) throw new UsageError('--header must be NAME:VALUE.', 'Example: --header "cf-access-client-id: …"')
  return [parts[1]!.toLowerCase(), parts[2]!]
}
