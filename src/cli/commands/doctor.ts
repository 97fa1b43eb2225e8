import type { Config } from '../../config.ts'
import { namesIn, podTemplatesIn, singleAddressNote, withFound } from '../../config/discover.ts'
import { systemLookup } from '../../platform/node/discovery.ts'
import { kubernetesAccess } from '../../platform/node/kubernetes/access.ts'
import { PodDiscovery } from '../../platform/node/kubernetes/pods.ts'
import { withTimeout } from '../../timeout.ts'
import { type Endpoint, type Answer, ask, type AskResult } from '../doctor/ask.ts'
import { examineConfig, type ExamineOptions, examinePlaces } from '../doctor/examine.ts'
import { hasConfig, loadConfig } from '../../platform/node/load-config.ts'
import { UsageError, type Args, type Command, type Io, progressBar } from './command.ts'
import { asJson, outputOf } from './args.ts'
import { type Finding, type Severity, type Subject, Findings } from '../doctor/finding.ts'

/* The doctor's report as text, as JSON and as an exit code. */

export type Counts = Readonly<Record<Severity, number>>

export function countsOf(subjects: readonly Subject[]): Counts {
  const counts: Record<Severity, number> = { ok: 0, note: 0, warning: 0, problem: 0, unreachable: 0 }
  for (const { findings } of subjects) for (const { mark } of findings) counts[mark]++
  return counts
}

/** 0: no problems. 1: problems (with `strict`: or warnings). 2: something was unreachable. */
export function exitCodeOf({ warning, problem, unreachable }: Counts, strict: boolean): number {
  if (unreachable > 0) return 2
  return problem > 0 || (strict && warning > 0) ? 1 : 0
}

const SIGNS: Readonly<Record<Severity, string>> = { ok: '✓', note: '·', warning: '!', problem: '✗', unreachable: '✗' }
const WIDTH = 110

/** @param brief omits findings of severity `ok` */
export function reportLines(subjects: readonly Subject[], brief: boolean): string[] {
  const width = Math.max(0, ...subjects.flatMap(({ findings }) => findings.map(({ check }) => check.length)))
  const lines: string[] = []
  for (const subject of subjects) {
    lines.push(
      [`${subject.kind} ${subject.name}`, subject.url, subject.is]
        .filter((part) => part !== null && part !== '')
        .join('  '),
    )
    const visible = subject.findings.filter(({ mark }) => !brief || mark !== 'ok')
    for (const finding of visible) lines.push(...findingLines(finding, width))
    if (visible.length === 0) lines.push(`  ${SIGNS.ok} no problems`)
    lines.push('')
  }
  return [...lines, summaryLine(subjects)]
}

function findingLines({ check, mark, message, costs, next }: Finding, width: number): string[] {
  const indent = ' '.repeat(width + 6)
  const lines = wrap(message, WIDTH - indent.length).map(
    (line, at) => (at === 0 ? `  ${SIGNS[mark]} ${check.replaceAll('_', ' ').padEnd(width)}  ` : indent) + line,
  )
  if (costs !== undefined) lines.push(...wrap(costs, WIDTH - indent.length).map((line) => indent + line))
  if (next !== undefined)
    lines.push(...wrap(next, WIDTH - indent.length - 2).map((line, at) => `${indent}${at === 0 ? '→ ' : '  '}${line}`))
  return lines
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function summaryLine(subjects: readonly Subject[]): string {
  const { ok, note, warning, problem, unreachable } = countsOf(subjects)
  const parts = [`${ok} fine`, counted(note, 'note'), counted(warning, 'warning'), counted(problem, 'problem')]
  if (unreachable > 0) parts.push(`${unreachable} unreachable`)
  return `${parts.join(', ')}.`
}

const counted = (count: number, what: string): string =>
  `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`

/** Builds the JSON report. It contains no headers and no keys. */
export function reportJson(
  subjects: readonly Subject[],
  { exitCode, at }: { readonly exitCode: number; readonly at: string },
): object {
  return { version: 1, at, exit_code: exitCode, counts: countsOf(subjects), subjects }
}

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
  },
  run,
}

/** Exit code 0: no problems; 1: problems; 2: unreachable or invalid command line. */
async function run(args: Args, io: Io): Promise<number> {
  const write = outputOf(args, 'json')
  const bar = progressBar('asked')
  const limitMs = (args.number('timeout-s', { min: 0.1, max: 600 }) ?? 5) * 1000
  const options: Omit<ExamineOptions, 'folder'> = {
    limitMs,
    generateMs: 6 * limitMs,
    idleMs: (args.number('idle-s', { min: 0, max: 600 }) ?? 6) * 1000,
    generate: !args.on('no-generate'),
    progress: bar.draw,
  }
  const subjects = await (args.text('worker') !== null
    ? byWorker(args, io, limitMs)
    : args.positionals.length > 0
      ? byUrl(args, io, options)
      : byConfig(args, io, options))
  bar.clear()
  for (const line of reportLines(subjects, args.on('brief'))) io.out(line)
  const exitCode = exitCodeOf(countsOf(subjects), args.on('strict'))
  write(() => asJson(reportJson(subjects, { exitCode, at: new Date().toISOString() })))
  return exitCode
}

/** Time between two readings of a Worker's metrics, milliseconds. */
const SAMPLE_MS = 2_000

async function byWorker(args: Args, io: Io, limitMs: number): Promise<readonly Subject[]> {
  if (args.positionals.length > 0 || args.text('config') !== null)
    throw new UsageError(
      '--worker takes neither URLs nor --config.',
      'Example: firstlight doctor --worker URL --key KEY',
    )
  const place = placeOf(args.text('worker')!, requestHeaders(args, io))
  return [await examineWorker(place, { limitMs, sampleMs: SAMPLE_MS })]
}

/** Headers of `--key` and `--header`. */
function requestHeaders(args: Args, io: Io): Readonly<Record<string, string>> {
  const key = args.text('key') ?? io.env['FIRSTLIGHT_ENGINE_KEY'] ?? null
  return {
    ...Object.fromEntries(args.texts('header').map(headerOf)),
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
  }
}

function byUrl(args: Args, io: Io, options: Omit<ExamineOptions, 'folder'>): ReturnType<typeof examinePlaces> {
  if (args.text('config') !== null)
    throw new UsageError('firstlight doctor takes either URLs or --config.', `Example: ${doctor.examples[0]}`)
  const headers = requestHeaders(args, io)
  return examinePlaces(
    args.positionals.map((url) => placeOf(url, headers)),
    { ...options, folder: '.' },
  )
}

async function byConfig(args: Args, io: Io, options: Omit<ExamineOptions, 'folder'>): ReturnType<typeof examineConfig> {
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
        err(`${template.id}: no ready pod with ${template.kubernetes!.selector} serves a model.`)
    return withFound(config, {
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
  if (parts === null) throw new UsageError('--header wants NAME:VALUE.', 'Example: --header "cf-access-client-id: …"')
  return [parts[1]!.toLowerCase(), parts[2]!]
}

/* Examines a deployed Worker through its public routes: readiness, placement, shared state and pace of `admit`. */

interface WorkerOptions {
  readonly limitMs: number
  /** Time between two readings of the metrics, ms. */
  readonly sampleMs: number
}

/** Calls per second and p99 of `admit`, s, above which several objects are recommended. */
const MANY_CALLS_PER_S = 500
const SLOW_ADMIT_S = 0.01
/** Calls per second below which a slow `admit` is no overload: the object is far, or was asleep. */
const SOME_CALLS_PER_S = 50

interface FleetView {
  readonly version?: string
  readonly shared?: boolean
  readonly isolates?: number
  readonly placement?: string
}

export async function examineWorker(worker: Endpoint, { limitMs, sampleMs }: WorkerOptions): Promise<Subject> {
  const found = new Findings()
  const subject = (is: string): Subject => ({
    kind: 'gateway',
    name: new URL(worker.url).host,
    url: worker.url,
    is,
    findings: found.list,
  })
  const ready = await ask(worker, { path: '/ready', limitMs })
  if (!isAnswer(ready)) {
    found.add('unreachable', 'reachable', ready.message, { next: ready.next })
    return subject('')
  }
  if (ready.status === 200) found.ok('ready', 'The Worker is ready.')
  else
    found.problem('ready', `GET /ready returned ${ready.status}.`, {
      next: 'Read the log: npx wrangler tail. Usual causes are a missing secret or an invalid FIRSTLIGHT_CONFIG.',
    })
  const fleet = await ask(worker, { path: '/v1/firstlight/fleet', limitMs })
  if (!isAnswer(fleet) || fleet.status !== 200) {
    found.note('admin_key', 'The admin API did not answer, so placement and state are unknown.', {
      next: 'Give the admin key: --key KEY, or FIRSTLIGHT_ENGINE_KEY.',
    })
    return subject('Firstlight')
  }
  const view = JSON.parse(fleet.text) as FleetView
  checkPlacement(view, found)
  checkShared(view, found)
  const before = readPace(await ask(worker, { path: '/metrics', limitMs }))
  await new Promise((resolve) => setTimeout(resolve, sampleMs))
  const after = readPace(await ask(worker, { path: '/metrics', limitMs }))
  if (before !== null && after !== null) checkPace(after, (after.calls - before.calls) / (sampleMs / 1000), found)
  return subject(`Firstlight ${view.version ?? ''}`.trim())
}

function checkPlacement({ placement }: FleetView, found: Findings): void {
  const remedy = {
    next: 'Set placement = { region = "aws:…" } in wrangler.local.toml if all engines are in one place.',
  }
  if (placement === undefined)
    found.note('cf_placement', 'The request had no cf-placement header: the Worker is not placed.', remedy)
  else if (placement.startsWith('remote-')) found.ok('cf_placement', `The Worker ran at its place: ${placement}.`)
  else found.note('cf_placement', `The Worker ran near this machine: ${placement}.`, remedy)
}

function checkShared({ shared, isolates }: FleetView, found: Findings): void {
  if (shared === true) found.ok('shared_state', `The isolates share their state (${isolates ?? 1} now).`)
  else
    found.warn('shared_state', 'The isolates do not share their state.', {
      costs: 'Views show one isolate. Circuits, drains and limits of regions hold for one isolate.',
      next: 'Deploy with the binding EDGE (class EdgeObject) of wrangler.toml.',
    })
}

/** Count of calls and p99, s, of the stage `admit`. */
interface Pace {
  readonly calls: number
  readonly p99S: number
}

/** Reads the histogram of `admit` over all engines. null: there is none, as without `ttft`. */
export function readPace(answer: AskResult): Pace | null {
  if (!isAnswer(answer) || answer.status !== 200) return null
  const buckets = new Map<number, number>()
  const lines = answer.text.matchAll(/^firstlight_stage_seconds_bucket\{([^}]*)\} (\S+)/gm)
  for (const [, labels = '', count] of lines) {
    if (!labels.includes('stage="admit"')) continue
    const limit = /le="([^"]+)"/.exec(labels)?.[1]
    const atMostS = limit === '+Inf' ? Infinity : Number(limit)
    buckets.set(atMostS, (buckets.get(atMostS) ?? 0) + Number(count))
  }
  const calls = buckets.get(Infinity) ?? 0
  if (calls === 0) return null
  const p99S = [...buckets].sort(([a], [b]) => a - b).find(([, count]) => count >= 0.99 * calls)![0]
  return { calls, p99S }
}

function checkPace({ p99S }: Pace, callsPerS: number, found: Findings): void {
  const isSlow = p99S > SLOW_ADMIT_S && callsPerS > SOME_CALLS_PER_S
  const p99 = p99S === Infinity ? 'above the largest bucket' : `at most ${p99S * 1000} ms`
  const measured = `${Math.round(callsPerS)} admits per second; p99 is ${p99}.`
  if (callsPerS <= MANY_CALLS_PER_S && !isSlow) return found.ok('admit', measured)
  found.warn('admit', measured, {
    costs: 'A Durable Object serves about 1,000 calls per second.',
    next: 'Set `shards` on the busiest pool, 500 admits per second each (docs/scale.md#several-objects-per-pool).',
  })
}

const isAnswer = (result: AskResult): result is Answer => 'status' in result
