/**
 * What the gateway costs on Workers: the built Worker under workerd beside a Worker that only passes on, interleaved in
 * one run over the same stub engines. All parts take about ten minutes. Needs `npm run build:worker`.
 *
 * Flags: --part cpu,cold,paths,admit,cells,tokens,prompts (absent: all) · --quick · --path-requests 30
 * cpu: --rounds 9 · --requests 300 (per slice) · --warm-requests 2000 (per Worker and scenario) ·
 *   --subjects native,front · --limit-s 210 (no further round afterwards)
 * cpu: --baseline FILE (bundle of another version, to compare with as well) · cold: --baseline FILE (in place of the
 *   bundle of an earlier commit, which a checkout without history does not have)
 */
import { admitRate } from './edge/admit-rate.ts'
import { cellRows } from './edge/cells.ts'
import { coldStart } from './edge/cold-start.ts'
import { FLOOR, workerCpu } from './edge/cpu.ts'
import { frontPrompts } from './edge/front-prompts.ts'
import { longPrompts, type Start } from './edge/long-prompts.ts'
import { pathRows } from './edge/path-model.ts'
import { placedPaths } from './edge/placed.ts'
import { startScript, type StartedProcess } from './proxy/processes.ts'
import type { BenchOptions, BenchResult } from './result.ts'

const ENGINES = 4
const SUBJECTS = `pass + prompt + json + end,${FLOOR},native,local,front`
/** Of each workload. */
const CELLS_MS = 45_000

interface Means {
  readonly start: Start
  /** Stub engines. */
  readonly urls: readonly string[]
  readonly options: BenchOptions
}

type Part = (means: Means) => Promise<BenchResult>

/** In the order in which they run. */
const PARTS: Readonly<Record<string, Part>> = {
  cpu: ({ start, urls, options: { flags, note } }) => {
    const rounds = Number(flags['rounds'] ?? (flags['quick'] ? 3 : 9))
    const requests = Number(flags['requests'] ?? 300)
    const warmRequests = Number(flags['warm-requests'] ?? (flags['quick'] ? 500 : 2000))
    const limitMs = Number(flags['limit-s'] ?? 210) * 1000
    const { baseline, subjects = SUBJECTS } = flags
    if (typeof baseline === 'string') process.env['BASELINE'] = baseline
    const names = [...String(subjects).split(','), ...(baseline === undefined ? [] : ['baseline'])]
    return workerCpu(start, urls, { rounds, requests, warmRequests, limitMs, note, subjects: names })
  },
  cold: async ({ urls, options: { flags, note } }) => {
    const baseline = typeof flags['baseline'] === 'string' ? flags['baseline'] : undefined
    return { rows: [], headline: { ...(await coldStart(urls, note, baseline)) } }
  },
  paths: async ({ urls, options: { flags } }) => {
    const rows = pathRows()
    const requests = Number(flags['path-requests'] ?? (flags['quick'] ? 10 : 30))
    return {
      rows: rows.map((row) => ({ scenario: 'path', ...row })),
      headline: {
        first_byte_over_goal_rows: rows.filter((row) => row.placed_ms > row.goal_ms).length,
        first_byte_over_goal_rows_unplaced: rows.filter((row) => row.unplaced_ms > row.goal_ms).length,
        ...(await placedPaths(urls, requests)),
      },
    }
  },
  admit: ({ options: { flags, note } }) => admitRate({ repeats: flags['quick'] ? 1 : 3, ms: 3_000 }, note),
  cells: ({ options: { flags, note } }) =>
    cellRows(
      flags['quick']
        ? { requests: 1500, seeds: 1, limitMs: CELLS_MS }
        : { requests: 4000, seeds: 3, limitMs: CELLS_MS },
      note,
    ),
  tokens: async ({ start, urls }) => ({ rows: [], headline: await longPrompts(start, urls) }),
  prompts: async ({ start, urls, options: { flags } }) => ({
    rows: [],
    headline: await frontPrompts(start, urls, Number(flags['rounds'] ?? (flags['quick'] ? 3 : 9))),
  }),
}

export default async function edge(options: BenchOptions): Promise<BenchResult> {
  const { part } = options.flags
  const names = typeof part === 'string' ? part.split(',') : Object.keys(PARTS)
  const unknown = names.find((name) => !(name in PARTS))
  if (unknown !== undefined) throw new Error(`--part ${unknown}: use ${Object.keys(PARTS).join(', ')}`)
  const started: StartedProcess[] = []
  const start: Start = async (file, args) => {
    const one = await startScript(file, args)
    started.push(one)
    return one
  }
  try {
    const urls: string[] = []
    for (let i = 0; i < ENGINES; i++) urls.push(`http://127.0.0.1:${(await start('stub-engine.ts', ['0'])).port}`)
    const results: BenchResult[] = []
    for (const name of names) {
      options.note(`${name} …`)
      results.push(await PARTS[name]!({ start, urls, options }))
    }
    return {
      rows: results.flatMap(({ rows }) => rows),
      headline: Object.assign({}, ...results.map(({ headline }) => headline)) as BenchResult['headline'],
    }
  } finally {
    for (const one of started) one.stop()
  }
}
