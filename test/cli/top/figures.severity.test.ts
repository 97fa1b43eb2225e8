import { expect, it } from 'vitest'
import { severityRank } from '../../../src/cli/top/figures.ts'

it('firstlight top ranks wedged and slow engines among the others, and not before them all', () => {
  const states = ['up', 'slow', 'circuit', 'full', 'wedged', 'unhealthy', 'unknown'] as const
  expect(states.toSorted((a, b) => severityRank(a) - severityRank(b))).toEqual([
    'unknown',
    'unhealthy',
    'wedged',
    'circuit',
    'slow',
    'full',
    'up',
  ])
})
