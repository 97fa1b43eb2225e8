/**
 * Cost of the gateway: the Node gateway, a plain `node:http` pipe and the bare engine, interleaved in one run with the
 * same stub engines, and other gateways where they are installed. CPU per request is the robust figure; times are
 * medians of repeats on one shared machine.
 *
 * Flags: --repeats 3 · --seconds 3 · --warm-seconds 2 (before the first repeat: cold code costs twice as much) ·
 * --policy predicted · --vocab FILE (compiled; adds the gateway with exact tokens) · --scenario paced (only scenarios
 * with this in their name) · --peers vllm-router:round_robin,vllm-router:cache_aware,nginx … · --compare FILE (a result
 * saved by --json) · --quick
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { median } from './median.ts'
import { measureLogAndStart } from './proxy/log-and-start.ts'
import { measureProtocolCost } from './proxy/protocol-cost.ts'
import { startPeer, type StartedPeer } from './peers/start-peer.ts'
import {
  rssBytes,
  runLoad,
  startServed,
  startScript,
  type LoadPlan,
  type LoadResult,
  type StartedProcess,
} from './proxy/processes.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

interface Scenario {
  readonly name: string
  readonly connections: number
  readonly bytes: number
  readonly pace: readonly [number, number]
}

const SCENARIOS: readonly Scenario[] = [
  { name: '1k c1', connections: 1, bytes: 1024, pace: [0, 0] },
  { name: '1k burst c64', connections: 64, bytes: 1024, pace: [0, 0] },
  { name: '1k paced c32', connections: 32, bytes: 1024, pace: [20, 5] },
  { name: '220k c1', connections: 1, bytes: 220_000, pace: [0, 0] },
  { name: '220k c16', connections: 16, bytes: 220_000, pace: [0, 0] },
]
const ENGINES = 4

interface Subject {
  /** `engine`, `pipe`, `firstlight` and what the flags add. */
  readonly name: string
  readonly started: StartedProcess | StartedPeer
}

export default async function proxy({ flags, note }: BenchOptions): Promise<BenchResult> {
  const repeats = Number(flags['repeats'] ?? (flags['quick'] ? 1 : 3))
  const ms = Number(flags['seconds'] ?? (flags['quick'] ? 1 : 3)) * 1000
  const warmMs = Number(flags['warm-seconds'] ?? 2) * 1000
  const scenarios = SCENARIOS.filter(({ name }) => name.includes(String(flags['scenario'] ?? '')))
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-bench-'))
  const started: StartedProcess[] = []
  try {
    for (let i = 0; i < ENGINES; i++) started.push(await startScript('stub-engine.ts', ['0']))
    const urls = started.map(({ port }) => `http://127.0.0.1:${port}`)
    const subjects: Subject[] = [{ name: 'engine', started: started[0]! }]
    for await (const subject of gateways({ folder, urls, flags, note })) {
      started.push(subject.started)
      subjects.push(subject)
    }
    const logAndStart = await measureLogAndStart({
      configFile: (level) => configFile(folder, urls, { policy: policyOf(flags), vocabulary: null, level }),
      folder,
      pairs: flags['quick'] ? 4 : 40,
      note,
    })
    const protocolCost = await measureProtocolCost({
      configFile: configFile(folder, urls, { policy: policyOf(flags), vocabulary: null, level: 'warn' }),
      urls,
      pairs: flags['quick'] ? 4 : 12,
      note,
    })
    const runs = new Map<string, LoadResult[]>()
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const scenario of scenarios) {
        for (const { name, started: subject } of subjects) {
          note(`${repeat + 1}/${repeats} ${scenario.name} ${name}`)
          const plan: LoadPlan = {
            ...scenario,
            port: subject.port,
            ms,
            warmMs: repeat === 0 ? warmMs : 500,
            head: 'head' in subject ? subject.head : '',
          }
          const result = await runLoad(plan, name === 'engine' ? null : subject.pid)
          const key = `${scenario.name}|${name}`
          runs.set(key, [...(runs.get(key) ?? []), result])
        }
      }
    }
    const rss = new Map(subjects.map(({ name, started: { pid } }) => [name, Math.round(rssBytes(pid) / 2 ** 20)]))
    const rows = rowsOf(runs, subjects, rss)
    if (typeof flags['compare'] === 'string') compare(flags['compare'], rows, note)
    const headline = {
      ...headlineOf(rows),
      ...logAndStart.headline,
      ...protocolCost.headline,
      rss_mb: rss.get('firstlight')!,
    }
    return { rows: [...rows, ...logAndStart.rows, ...protocolCost.rows], headline }
  } finally {
    for (const one of started) one.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Site extends Pick<BenchOptions, 'flags' | 'note'> {
  readonly folder: string
  readonly urls: readonly string[]
}

/** The pipe, Firstlight, and the requested peers. */
async function* gateways({ folder, urls, flags, note }: Site): AsyncGenerator<Subject> {
  const policy = policyOf(flags)
  yield { name: 'pipe', started: await startScript('http-pipe.ts', urls) }
  yield { name: 'firstlight', started: await startGateway(folder, urls, { policy, vocabulary: null }) }
  if (typeof flags['vocab'] === 'string')
    yield {
      name: 'firstlight exact',
      started: await startGateway(folder, urls, { policy, vocabulary: resolve(flags['vocab']) }),
    }
  for (const name of String(flags['peers'] ?? '')
    .split(',')
    .filter((word) => word !== '')) {
    note(`starting ${name} …`)
    yield { name, started: await startPeer({ name, engines: urls, work: folder }) }
  }
}

const policyOf = (flags: BenchOptions['flags']): string => String(flags['policy'] ?? 'predicted')

interface Gateway {
  readonly policy: string
  /** A compiled vocabulary; null: prompts are measured in bytes. */
  readonly vocabulary: string | null
}

const startGateway = (folder: string, urls: readonly string[], gateway: Gateway): Promise<StartedProcess> =>
  startServed(configFile(folder, urls, { ...gateway, level: 'warn' }))

function configFile(
  folder: string,
  urls: readonly string[],
  { policy, vocabulary, level }: Gateway & { readonly level: 'info' | 'warn' },
): string {
  const file = join(folder, `firstlight-${vocabulary === null ? 'bytes' : 'exact'}-${level}.json`)
  const pool = {
    model: 'fake',
    policy,
    ...(vocabulary === null ? {} : { tokenizer: vocabulary }),
    engines: urls.map((url, i) => ({ id: `e${i}`, url })),
  }
  writeFileSync(
    file,
    JSON.stringify({ listen: '127.0.0.1:0', log: { level }, clusters: [{ id: 'bench', pools: [pool] }] }),
  )
  return file
}

function rowsOf(
  runs: ReadonlyMap<string, readonly LoadResult[]>,
  subjects: readonly Subject[],
  rss: ReadonlyMap<string, number>,
): BenchRow[] {
  return SCENARIOS.filter(({ name }) => runs.has(`${name}|engine`)).flatMap(({ name }) => {
    const bare = runs.get(`${name}|engine`)!
    const pipe = runs.get(`${name}|pipe`)!
    return subjects.map(({ name: subject }) => {
      const results = runs.get(`${name}|${subject}`)!
      const isEngine = subject === 'engine'
      return {
        scenario: name,
        subject,
        cpu_us: isEngine ? null : median(results.map(({ cpu_us }) => cpu_us!)),
        cpu_ratio_vs_pipe: isEngine ? null : median(results.map(({ cpu_us }, i) => cpu_us! / pipe[i]!.cpu_us!)),
        ttfb_added_ms_p50: median(results.map((result, i) => result.ttfb_ms_p50 - bare[i]!.ttfb_ms_p50)),
        ttfb_added_ms_p99: median(results.map((result, i) => result.ttfb_ms_p99 - bare[i]!.ttfb_ms_p99)),
        requests: results.reduce((sum, { requests }) => sum + requests, 0),
        errors: results.reduce((sum, { errors }) => sum + errors, 0),
        rss_mb: isEngine ? null : rss.get(subject)!,
      }
    })
  })
}

function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  const figures = [
    ['cpu_ratio_vs_pipe', '1k burst c64', 'cpu_ratio_vs_pipe'],
    ['cpu_ratio_vs_pipe_paced', '1k paced c32', 'cpu_ratio_vs_pipe'],
    ['ttfb_added_ms_p50', '1k c1', 'ttfb_added_ms_p50'],
    ['ttfb_added_ms_p99', '1k c1', 'ttfb_added_ms_p99'],
    ['ttfb_added_ms_p50_220k', '220k c1', 'ttfb_added_ms_p50'],
  ] as const
  const found = figures.map(
    ([figure, scenario, column]) =>
      [figure, rows.find((row) => row['scenario'] === scenario && row['subject'] === 'firstlight')?.[column]] as const,
  )
  return Object.fromEntries(
    found.filter((entry): entry is readonly [(typeof figures)[number][0], number] => typeof entry[1] === 'number'),
  )
}

/** Compares with an earlier run on the same machine, without the drift of the pipe. */
function compare(file: string, rows: readonly BenchRow[], note: (line: string) => void): void {
  const saved = (JSON.parse(readFileSync(file, 'utf8')) as { rows: BenchRow[] }).rows
  for (const row of rows) {
    const before = saved.find((other) => other.scenario === row.scenario && other.subject === row.subject)
    if (row.subject !== 'firstlight' || before === undefined) continue
    const change = (row.cpu_ratio_vs_pipe as number) / (before.cpu_ratio_vs_pipe as number)
    note(
      `${row.scenario}: CPU ratio ${(before.cpu_ratio_vs_pipe as number).toFixed(2)} -> ` +
        `${(row.cpu_ratio_vs_pipe as number).toFixed(2)} (x${change.toFixed(2)})`,
    )
    if (change > 1.25) process.exitCode = 1
  }
}
