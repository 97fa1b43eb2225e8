import { describe, expect, it } from 'vitest'
import { disturb } from '../../../packages/bench/routing/disturbed.ts'

const SEEDS = [1, 2, 3, 4, 5, 6]

describe('an engine that answered 150 ms late for 14 turns', () => {
  it.each(SEEDS)(
    'an engine that was late gets its share of new prompts again, and every prompt that it has cached (seed %i)',
    (seed) => {
      const found = disturb({ seed })
      expect(found.turnsAway).toBe(0)
      // An even split of the 24 new prompts is 12; 24 seeds have 10 to 15.
      expect(found.newAway).toBeLessThanOrEqual(15)
      expect(found.errorAfterTen).toBeLessThanOrEqual(0.25)
    },
  )

  it.each(SEEDS)('an engine that was late is tried with new prompts when it has nothing cached (seed %i)', (seed) => {
    const found = disturb({ seed, onlyNew: true })
    expect(found.newAway).toBeLessThanOrEqual(21)
    expect(found.errorAfterTen).toBeLessThanOrEqual(0.25)
  })
})

describe('two equal engines', () => {
  it.each(SEEDS)(
    'two equal engines share new prompts within 60:40 while both serve cheap follow-up turns (seed %i)',
    (seed) => {
      const { minShare, newAway } = disturb({ seed, delayMs: 0 })
      expect(minShare).toBeGreaterThanOrEqual(0.4)
      // In this part only engine b has follow-up turns.
      expect(newAway).toBeLessThanOrEqual(14)
    },
  )
})
