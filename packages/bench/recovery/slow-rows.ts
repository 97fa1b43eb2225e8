/** Rows of engines that become slow, in virtual time: medians over seeds, beside the fleet without that engine. */
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { type SlowEngine, slowEngine } from './slow-engine.ts'

const SEEDS = [1, 2, 3, 4, 5]
const FACTORS = [3, 5, 10]
/** Requests per second: a third and most of what the siblings serve. */
const RATES = [8, 20]

export interface SlowRow extends BenchRow {
  readonly sibling_p99_ratio: number
}

export function slowRows(): SlowRow[] {
  return RATES.flatMap((perS) => {
    const without = SEEDS.map((seed) => slowEngine({ factor: 1, seed, perS, isAbsent: true }))
    return FACTORS.map((factor) => {
      const runs = SEEDS.map((seed) => slowEngine({ factor, seed, perS }))
      const of = (value: (run: SlowEngine, at: number) => number): number => median(runs.map(value))
      return {
        fault: `${factor}x slow in virtual time, ${perS}/s`,
        placed: of(({ placed }) => placed),
        later_than_predicted: of(({ ownLater }) => ownLater),
        predictions_follow_s: of(({ followedS }) => followedS ?? 0),
        ejected_after_s: orNull(of(({ ejectedS }) => ejectedS ?? Infinity)),
        back_in_use_s: orNull(of(({ returnedS }) => returnedS ?? Infinity)),
        sibling_p99_ratio: of(({ siblingsP99Ms }, at) => siblingsP99Ms / without[at]!.siblingsP99Ms),
        all_p99_ratio: of(({ allP99Ms }, at) => allP99Ms / without[at]!.allP99Ms),
      }
    })
  })
}

/** null: most runs had none. */
const orNull = (seconds: number): number | null => (seconds === Infinity ? null : seconds)
