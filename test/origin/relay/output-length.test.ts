import { describe, expect, it } from 'vitest'
import { OutputLength } from '../../../src/origin/relay/output-length.ts'

const PATH = '/v1/chat/completions'
const WHOLE = { sequences: 1, limitTokens: Infinity, truncatedAtMs: null }
const engine = { id: 'e', url: 'http://e.test', key: null } as never
const other = { id: 'o', url: 'http://o.test', key: null } as never

const learned = (...answers: readonly (readonly [tokens: number, ms: number, sequences?: number])[]): OutputLength => {
  const length = new OutputLength()
  for (const [tokens, ms, sequences = 1] of answers) length.learn(engine, PATH, { tokens, ms, sequences })
  return length
}

describe('length of answers', () => {
  it('the length is unknown before an answer of the engine and the endpoint was read', () => {
    const length = learned([40, 100])
    expect(length.of(other, PATH, WHOLE)).toBeNull()
    expect(length.of(engine, '/v1/completions', WHOLE)).toBeNull()
    expect(length.of(engine, `${PATH}?beta=1`, WHOLE)).toBe(40)
  })

  it('the length of a complete answer is the mean of one sequence, for each of its sequences, up to its limit', () => {
    const length = learned([30, 100], [120, 100, 2])
    expect(length.of(engine, PATH, WHOLE)).toBe(45)
    expect(length.of(engine, PATH, { ...WHOLE, sequences: 3 })).toBe(135)
    expect(length.of(engine, PATH, { ...WHOLE, sequences: 3, limitTokens: 10 })).toBe(30)
  })

  it('the length of an answer that broke off is in proportion to its time, and at most that of a whole one', () => {
    const length = learned([100, 1_000])
    expect(length.of(engine, PATH, { ...WHOLE, truncatedAtMs: 250 })).toBe(25)
    expect(length.of(engine, PATH, { ...WHOLE, truncatedAtMs: 9_000 })).toBe(100)
  })

  it('the length follows the latest answers', () => {
    const length = learned(...Array.from({ length: 300 }, () => [10, 100] as const))
    for (let at = 0; at < 2_000; at++) length.learn(engine, PATH, { tokens: 50, ms: 100, sequences: 1 })
    expect(length.of(engine, PATH, WHOLE)).toBe(50)
  })
})
