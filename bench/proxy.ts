/**
 * What the gateway costs: our Node gateway, a plain `node:http` pipe and the bare engine, interleaved in one run over
 * the same stub engines. CPU per request is the robust figure; times are medians of repeats on one shared machine.
 *
 * Flags: --repeats 3 · --seconds 3 · --policy predicted · --compare FILE (a result saved by --json) · --quick
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from './median.ts'
import { rssBytes, runLoad, startScript, type LoadPlan, type LoadResult, type Started } from './proxy/processes.ts'
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
  readonly name: 'engine' | 'pipe' | 'firstlight'
  readonly started: Started
}

export default async function proxy({ flags, note }: BenchOptions): Promise<BenchResult> {
  const repeats = Number(flags.repeats ?? (flags.quick ? 1 : 3))
  const ms = Number(flags.seconds ?? (flags.quick ? 1 : 3)) * 1000
  const engines: Started[] = []
  for (let i = 0; i < ENGINES; i++) engines.push(await startScript('stub-engine.ts', ['0']))
  const urls = engines.map(({ port }) => `http://127.0.0.1:${port}`)
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-bench-'))
  const subjects: Subject[] = [
    { name: 'engine', started: engines[0]! },
    { name: 'pipe', started: await startScript('http-pipe.ts', urls) },
    { name: 'firstlight', started: await startGateway(folder, urls, String(flags.policy ?? 'predicted')) },
  ]
  try {
    const runs = new Map<string, LoadResult[]>()
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const scenario of SCENARIOS) {
        for (const subject of subjects) {
          note(`${repeat + 1}/${repeats} ${scenario.name} ${subject.name}`)
          const plan: LoadPlan = { ...scenario, port: subject.started.port, ms, warmMs: repeat === 0 ? 2000 : 500 }
          const result = await runLoad(plan, subject.name === 'engine' ? null : subject.started.pid)
          const key = `${scenario.name}|${subject.name}`
          runs.set(key, [...(runs.get(key) ?? []), result])
        }
      }
    }
    const rows = rowsOf(runs)
    const headline = { ...headlineOf(rows), rss_mb: Math.round(rssBytes(subjects[2]!.started.pid) / 2 ** 20) }
    if (typeof flags.compare === 'string') compare(flags.compare, rows, note)
    return { rows, headline }
  } finally {
    for (const { started } of subjects) started.stop()
    for (const engine of engines) engine.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function startGateway(folder: string, urls: readonly string[], policy: string): Promise<Started> {
  const file = join(folder, 'firstlight.yaml')
  const list = urls.map((url, i) => `          - { id: e${i}, url: "${url}" }`).join('\n')
  writeFileSync(
    file,
    `listen: 127.0.0.1:0\nlog: { level: warn }\nclusters:\n  - id: bench\n    pools:\n      - model: fake\n        policy: ${policy}\n        engines:\n${list}\n`,
  )
  return startScript('gateway.ts', [file])
}

function rowsOf(runs: ReadonlyMap<string, readonly LoadResult[]>): BenchRow[] {
  const rows: BenchRow[] = []
  for (const { name } of SCENARIOS) {
    const bare = runs.get(`${name}|engine`)!
    const pipe = runs.get(`${name}|pipe`)!
    for (const subject of ['engine', 'pipe', 'firstlight'] as const) {
      const results = runs.get(`${name}|${subject}`)!
      rows.push({
        scenario: name,
        subject,
        cpu_us: subject === 'engine' ? null : median(results.map((result) => result.cpu_us!)),
        cpu_ratio_vs_pipe: subject === 'engine' ? null : median(results.map((result, i) => result.cpu_us! / pipe[i]!.cpu_us!)),
        ttfb_added_ms_p50: median(results.map((result, i) => result.ttfb_ms_p50 - bare[i]!.ttfb_ms_p50)),
        ttfb_added_ms_p99: median(results.map((result, i) => result.ttfb_ms_p99 - bare[i]!.ttfb_ms_p99)),
        requests: results.reduce((sum, result) => sum + result.requests, 0),
        errors: results.reduce((sum, result) => sum + result.errors, 0),
      })
    }
  }
  return rows
}

function headlineOf(rows: readonly BenchRow[]): Record<string, number | null> {
  const of = (scenario: string): BenchRow => rows.find((row) => row.scenario === scenario && row.subject === 'firstlight')!
  return {
    cpu_ratio_vs_pipe: of('1k burst c64').cpu_ratio_vs_pipe as number,
    cpu_ratio_vs_pipe_paced: of('1k paced c32').cpu_ratio_vs_pipe as number,
    ttfb_added_ms_p50: of('1k c1').ttfb_added_ms_p50 as number,
    ttfb_added_ms_p99: of('1k c1').ttfb_added_ms_p99 as number,
    ttfb_added_ms_p50_220k: of('220k c1').ttfb_added_ms_p50 as number,
  }
}

/** Against a run saved earlier on the same machine: the pipe's own drift is taken out. */
function compare(file: string, rows: readonly BenchRow[], note: (line: string) => void): void {
  const saved = (JSON.parse(readFileSync(file, 'utf8')) as { rows: BenchRow[] }).rows
  for (const row of rows) {
    const before = saved.find((other) => other.scenario === row.scenario && other.subject === row.subject)
    if (row.subject !== 'firstlight' || before === undefined) continue
    const change = (row.cpu_ratio_vs_pipe as number) / (before.cpu_ratio_vs_pipe as number)
    note(`${row.scenario}: CPU ratio ${(before.cpu_ratio_vs_pipe as number).toFixed(2)} -> ${(row.cpu_ratio_vs_pipe as number).toFixed(2)} (x${change.toFixed(2)})`)
    if (change > 1.25) process.exitCode = 1
  }
}
