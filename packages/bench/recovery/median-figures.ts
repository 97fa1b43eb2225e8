import { median } from '../median.ts'
import type { Figures } from './figures.ts'

/** Returns the median of each figure over several runs. A time that did not come counts as late for `back_in_use_s`. */
export function medianFigures(runs: readonly Figures[]): Figures {
  const of = (figure: keyof Figures, missing = -Infinity): number | null => {
    const value = median(runs.map((run) => run[figure] ?? missing))
    return value === missing ? null : value
  }
  return {
    last_placement_s: of('last_placement_s'),
    overdue_s: of('overdue_s'),
    placed: of('placed')!,
    lost: of('lost')!,
    streams_ended: of('streams_ended')!,
    late: of('late')!,
    p99_before_ms: of('p99_before_ms'),
    siblings_p99_ms: of('siblings_p99_ms'),
    back_in_use_s: of('back_in_use_s', Infinity),
  }
}
