/**
 * What the gateway costs on Workers: the built Worker under workerd beside a Worker that only passes on, interleaved in
 * one run over the same stub engines. Needs `npm run build:worker`.
 *
 * Flags: --repeats 3 · --seconds 3 · --warm-seconds 2 (before the first repeat) · --quick
 * --cold (cold starts only) · --paths (time to the first byte only) · --path-requests 30 · --baseline FILE (bundle to compare cold starts with)
 */
import { coldStart } from './edge/cold-start.ts'
import { pathRows } from './edge/path-model.ts'
import { placedPaths } from './edge/placed.ts'
import { longPrompts, type Start } from './edge/long-prompts.ts'
import { median } from './median.ts'
import { rssBytes, runLoad, startScript, type LoadPlan, type LoadResult, type Started } from './proxy/processes.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

/**
 * `pass + object`: asks an object first; `pass + books`: and reads the prompt, sees the first bytes come and the
 * stream end,
 * which nobody with books can do without. `native`: nobody reads the stream on its way; `observed`: all are read, where
 * Workers read a tenth by default; `exact`: native, with a vocabulary.
 */
export type EdgeSubject = 'pass' | 'pass + object' | 'pass + books' | 'native' | 'observed' | 'exact'

const SUBJECTS = [
  'pass',
  'pass + object',
  'pass + books',
  'native',
  'observed',
] as const satisfies readonly EdgeSubject[]
const SCENARIOS: readonly (Pick<LoadPlan, 'connections' | 'bytes' | 'pace'> & { readonly name: string })[] = [
  { name: '1k burst c16', connections: 16, bytes: 1024, pace: [0, 0] },
  { name: '1k paced c32', connections: 32, bytes: 1024, pace: [20, 5] },
  { name: '220k c4', connections: 4, bytes: 220_000, pace: [0, 0] },
]
const ENGINES = 4

export default async function edge({ flags, note }: BenchOptions): Promise<BenchResult> {
  const repeats = Number(flags['repeats'] ?? (flags['quick'] ? 1 : 3))
  const ms = Number(flags['seconds'] ?? (flags['quick'] ? 1 : 3)) * 1000
  const warmMs = Number(flags['warm-seconds'] ?? 2) * 1000
  const started: Started[] = []
  const start: Start = async (file, args) => {
    const one = await startScript(file, args)
    started.push(one)
    return one
  }
  try {
    const urls: string[] = []
    for (let i = 0; i < ENGINES; i++) urls.push(`http://127.0.0.1:${(await start('stub-engine.ts', ['0'])).port}`)
    const cold =
      flags['paths'] === true
        ? {}
        : await coldStart(urls, note, typeof flags['baseline'] === 'string' ? flags['baseline'] : undefined)
    if (flags['cold'] === true) return { rows: [], headline: { ...cold } }
    note('paths …')
    const paths = await pathsOf(urls, Number(flags['path-requests'] ?? (flags['quick'] ? 10 : 30)))
    if (flags['paths'] === true) return { rows: [...paths.rows], headline: { ...cold, ...paths.headline } }
    const subjects: [EdgeSubject, Started][] = []
    for (const name of SUBJECTS) subjects.push([name, await start('../edge/host.ts', [name, ...urls])])
    const runs = new Map<string, LoadResult[]>()
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const scenario of SCENARIOS) {
        for (const [name, { port, pid }] of subjects) {
          note(`${repeat + 1}/${repeats} ${scenario.name} ${name}`)
          const result = await runLoad({ ...scenario, port, ms, warmMs: repeat === 0 ? warmMs : 500 }, pid)
          runs.set(`${scenario.name}|${name}`, [...(runs.get(`${scenario.name}|${name}`) ?? []), result])
        }
      }
    }
    const rows = rowsOf(runs)
    note('tokens …')
    const tokens = await longPrompts(start, urls)
    const rss = subjects.map(
      ([name, { pid }]) => [`rss_mb_${name.replace(' + ', '_')}`, Math.round(rssBytes(pid) / 2 ** 20)] as const,
    )
    return {
      rows,
      headline: { ...headlineOf(rows), ...cold, ...paths.headline, ...tokens, ...Object.fromEntries(rss) },
    }
  } finally {
    for (const one of started) one.stop()
  }
}

/** Rows of the model with its count over the goal, and measured times under workerd. */
async function pathsOf(urls: readonly string[], requests: number) {
  const rows = pathRows()
  return {
    rows: rows.map((row) => ({ scenario: 'path', ...row })),
    headline: {
      first_byte_over_goal_rows: rows.filter((row) => row.placed_ms > row.goal_ms).length,
      first_byte_over_goal_rows_unplaced: rows.filter((row) => row.unplaced_ms > row.goal_ms).length,
      ...(await placedPaths(urls, requests)),
    },
  }
}

function rowsOf(runs: ReadonlyMap<string, readonly LoadResult[]>): BenchRow[] {
  return SCENARIOS.flatMap(({ name }) => {
    const bare = runs.get(`${name}|pass`)!
    return SUBJECTS.map((subject) => {
      const results = runs.get(`${name}|${subject}`)!
      return {
        scenario: name,
        subject,
        cpu_us: median(results.map(({ cpu_us }) => cpu_us!)),
        cpu_ratio_vs_pass: median(results.map(({ cpu_us }, i) => cpu_us! / bare[i]!.cpu_us!)),
        ttfb_ms_p50: median(results.map(({ ttfb_ms_p50 }) => ttfb_ms_p50)),
        ttfb_ms_p99: median(results.map(({ ttfb_ms_p99 }) => ttfb_ms_p99)),
        requests: results.reduce((sum, { requests }) => sum + requests, 0),
        errors: results.reduce((sum, { errors }) => sum + errors, 0),
      }
    })
  })
}

function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  const ratio = (scenario: string, subject: EdgeSubject) =>
    rows.find((row) => row['scenario'] === scenario && row['subject'] === subject)!['cpu_ratio_vs_pass'] as number
  return {
    native_ratio_burst: ratio('1k burst c16', 'native'),
    native_ratio_paced: ratio('1k paced c32', 'native'),
    native_ratio_220k: ratio('220k c4', 'native'),
    books_ratio_burst: ratio('1k burst c16', 'pass + books'),
    books_ratio_paced: ratio('1k paced c32', 'pass + books'),
    observed_ratio_burst: ratio('1k burst c16', 'observed'),
    observed_ratio_paced: ratio('1k paced c32', 'observed'),
  }
}
