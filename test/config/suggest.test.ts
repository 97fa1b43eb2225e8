import { assert, constantFrom, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { didYouMean, editDistance } from '../../src/config/suggest.ts'

/** The textbook recursion, for short words. */
function naive(a: string, b: string): number {
  if (a === '' || b === '') return a.length + b.length
  const [x, y] = [a.slice(1), b.slice(1)]
  let best = Math.min(naive(x, b) + 1, naive(a, y) + 1, naive(x, y) + (a[0] === b[0] ? 0 : 1))
  if (a.length > 1 && b.length > 1 && a[0] === b[1] && a[1] === b[0])
    best = Math.min(best, naive(a.slice(2), b.slice(2)) + 1)
  return best
}

describe('the edit distance', () => {
  it('the edit distance equals the textbook algorithm', () => {
    const word = string({ maxLength: 5, unit: constantFrom('a', 'b', 'c') })
    assert(property(word, word, (a, b) => editDistance(a, b) === naive(a, b)))
  })
})

describe('a suggestion', () => {
  it.each([
    ['pol', ['policy', 'pools', 'url'], ''],
    ['polcy', ['policy', 'pools'], '; did you mean "policy"?'],
    ['Block-Tokens', ['block_tokens'], '; did you mean "block_tokens"?'],
    ['idel_ms', ['idle_ms', 'prefill_ms'], '; did you mean "idle_ms"?'],
    ['kubernetes', ['policy', 'pools'], ''],
  ])('for %s', (word, known, hint) => {
    expect(didYouMean(word, known)).toBe(hint)
  })
})
