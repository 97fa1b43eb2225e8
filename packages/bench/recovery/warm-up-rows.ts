/** Rows of an engine that joins, by load and `slow_start`: medians over seeds. `without`: the same requests without it. */
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
        mean_ms: of(({ all }) => all.meanMs),
        mean_without_ms: of(({ all }) => all.meanWithoutMs),
        p99_ms: of(({ all }) => all.p99Ms),
        p99_without_ms: of(({ all }) => all.p99WithoutMs),
        others_mean_ms: of(({ others }) => others.meanMs),
        others_mean_without_ms: of(({ others }) => others.meanWithoutMs),
        others_p99_ms: of(({ others }) => others.p99Ms),
        others_p99_without_ms: of(({ others }) => others.p99WithoutMs),
        others_later: of(({ othersLater }) => othersLater),
        new_engine_mean_ms: of(({ own }) => own.meanMs),
        new_engine_mean_without_ms: of(({ own }) => own.meanWithoutMs),
        new_engine_p99_ms: of(({ own }) => own.p99Ms),
        new_engine_p99_without_ms: of(({ own }) => own.p99WithoutMs),
        new_engine_later: of(({ ownLater }) => ownLater),
      }
    }),
  )
}
