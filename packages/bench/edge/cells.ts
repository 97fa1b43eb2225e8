/**
 * A pool of 64 engines divided over cells (`shards`), in virtual time: mean TTFT as a multiple of one cell with all
 * engines. Prompts share 320 prefixes; in one workload a single prefix has 60 % of the requests.
 */
import { CellsRouter } from '../../replay/src/replay/cells-router.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile } from '../../replay/src/replay/engine-profile.ts'
import { fleetOf, replay } from '../../replay/src/replay/plan.ts'
import { speedsOn } from '../../replay/src/replay/sustained-speed.ts'
import type { RouterKind } from '../../replay/src/replay/router.ts'
import { figuresOf } from '../../replay/src/replay/statistics.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import { longSharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { median } from '../median.ts'
import { arriving } from '../policies/workloads.ts'
import type { BenchOptions, BenchRow } from '../result.ts'

const ENGINES = 64
const LOAD = 0.85
const CELLS = [4, 8]
const ISOLATES = 1
const SLO = { ttftMs: 5000, itlMs: 100 }
const HOT_SHARES = { 'one prefix 60 %': { hotShare: 0.6 }, 'prefixes alike': {} } as const

export interface CellsPlan {
  readonly requests: number
  readonly seeds: number
  /** After so long no further seed is run for a workload, ms. */
  readonly limitMs: number
}

export async function cellRows(
  { requests, seeds, limitMs }: CellsPlan,
  note: BenchOptions['note'],
): Promise<{ readonly rows: BenchRow[]; readonly headline: Record<string, number> }> {
  const rows: BenchRow[] = []
  for (const [workload, shape] of Object.entries(HOT_SHARES)) {
    const ratios = new Map<number, number[]>(CELLS.map((cells) => [cells, []]))
    const speedAt = speedsOn(fleet)
    const startedAt = performance.now()
    for (let seed = 1; seed <= seeds; seed++) {
      if (seed > 1 && performance.now() - startedAt > limitMs) break
      note(`cells, ${workload}, seed ${seed}`)
      const trace = traceOf(requests, shape, seed)
      const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed, clockMs: null }
      const speed = speedAt(LOAD, trace, pace)
      const meanMs = (cells: number) =>
        figuresOf(replay(trace, fleet, kindOf(cells), { ...pace, speed }), SLO).ttftMeanMs
      const one = meanMs(1)
      for (const cells of CELLS) ratios.get(cells)!.push(meanMs(cells) / one)
    }
    for (const [cells, values] of ratios)
      rows.push({
        scenario: 'cells',
        workload,
        cells,
        load: LOAD,
        seeds: values.length,
        ttft_ratio_vs_one: median(values),
      })
  }
  const hot = rows.find(({ cells }) => cells === CELLS[0])!
  return { rows, headline: { cells_hot_prefix_ttft_ratio: hot['ttft_ratio_vs_one'] as number } }
}

const fleet = fleetOf(ENGINES, { kind: 'vllm', profile: engineProfile('h100-8b') })

const kindOf = (cells: number): RouterKind => ({
  name: `cells_${cells}`,
  doc: '',
  source: '',
  create: (context) =>
    new CellsRouter({ name: 'cells', policy: { name: 'predicted', options: {} }, cells, isolates: ISOLATES }, context),
})

/** The rate is set by the speed of the replay. */
function traceOf(requests: number, shape: { readonly hotShare?: number }, seed: number): Trace {
  const trace = longSharedPrefixes({
    name: 'cells',
    requests,
    prefixes: 320,
    seed,
    ...shape,
  })
  return arriving(trace, 100, chance(seed + 1000))
}
