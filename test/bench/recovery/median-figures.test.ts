import { expect, it } from 'vitest'
import type { Figures } from '../../../packages/bench/recovery/figures.ts'
import { medianFigures } from '../../../packages/bench/recovery/median-figures.ts'

const run = (changes: Partial<Figures>): Figures => ({
  last_placement_s: 1,
  overdue_s: null,
  placed: 3,
  lost: 0,
  streams_ended: 0,
  late: 0,
  p99_before_ms: 100,
  siblings_p99_ms: 100,
  back_in_use_s: 1,
  ...changes,
})

it('the median of several runs is the middle of each figure, and an engine that is not used again counts as late', () => {
  const runs = [
    run({ lost: 4, back_in_use_s: null, last_placement_s: null, overdue_s: 2 }),
    run({ lost: 1, back_in_use_s: 2, last_placement_s: 5, overdue_s: 1 }),
    run({ lost: 0, back_in_use_s: null, last_placement_s: null, overdue_s: null }),
  ]
  expect(medianFigures(runs)).toMatchObject({ lost: 1, back_in_use_s: null, last_placement_s: null, overdue_s: 1 })
})

it('the median is the figures of a single run', () => {
  expect(medianFigures([run({})])).toEqual(run({}))
})
