/** Rows of an engine that joins, by load and `slow_start`: medians over seeds. */
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { type WarmUp, warmUp } from './warm-up.ts'

const SLOW_STARTS = [0, 1, 4]
/** Requests per second: idle times on all engines, hardly any, and more than three engines serve. */
const RATES = [6.5, 10, 16]
const SEEDS = [1, 2, 3, 4, 5]

export function warmUpRows(): BenchRow[] {
  return RATES.flatMap((perS) =>
    SLOW_STARTS.map((slowStart) => {
      const runs = SEEDS.map((seed) => warmUp({ slowStart, seed, perS }))
      const of = (value: (run: WarmUp) => number): number => median(runs.map(value))
      return {
        fault: `an engine joins at ${perS}/s, slow_start ${slowStart}`,
        share_10s: of(({ share10s }) => share10s),
        share_60s: of(({ share60s }) => share60s),
        share_later: of(({ shareLater }) => shareLater),
        p99_ms: of(({ p99Ms }) => p99Ms),
        new_engine_p99_ms: of(({ newP99Ms }) => newP99Ms),
      }
    }),
  )
}
