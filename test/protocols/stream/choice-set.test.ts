import { expect, it } from 'vitest'
import { ChoiceSet } from '../../../src/protocols/stream/choice-set.ts'

it('a choice set has the size of a Set, whatever numbers engines send', () => {
  const choices = new ChoiceSet()
  const expected = new Set<number>()
  for (const choice of [0, 0, 30, 31, 32, 31, -1, 0.5, 2 ** 40, 1, 30]) {
    choices.add(choice)
    expected.add(choice)
    expect(choices.size).toBe(expected.size)
  }
})
