import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { blockKeys } from '../../packages/simulator/src/block-keys.ts'
import { generate } from '../../packages/simulator/src/http-api/text-generator.ts'
import { decode, encode, vocabularySize } from '../../packages/simulator/src/tokenizer.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 200 })

describe('the simulated tokenizer', () => {
  it('the simulated tokenizer decodes every text that it encoded', () => {
    fc.assert(fc.property(text, (given) => decode(encode(given)) === given))
  })

  it('the simulated tokenizer returns ids within its vocabulary', () => {
    fc.assert(fc.property(text, (given) => encode(given).every((id) => id >= 8 && id < vocabularySize)))
  })

  it('the simulated tokenizer splits a text equally whatever follows a line break', () => {
    fc.assert(
      fc.property(text, fc.string({ minLength: 1 }), (given, more) => {
        const head = encode(`${given}.\n`)
        const tail = more.replace(/^\s+/, '') || 'x'
        expect(Array.from(encode(`${given}.\n${tail}`).subarray(0, head.length))).toEqual(Array.from(head))
      }),
    )
  })

  it.each([
    ['the quick brown fox', 6],
    ['你好世界', 4],
    ['2026', 4],
    ['🎉', 2],
  ])('the simulated tokenizer has a plausible number of tokens for %s', (given, count) => {
    expect(encode(given)).toHaveLength(count)
  })
})

describe('the simulated language', () => {
  const whole = (prompt: Uint32Array, maxTokens: number): Uint32Array =>
    generate('m', prompt, { maxTokens, mayStop: false, minTokens: 0 }).tokens

  it('the simulated language continues a text on another engine as on the first one', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 30 }), (given, length) => {
        const prompt = encode(`${given}:`)
        const all = whole(prompt, 40)
        const continued = encode(`${given}:${decode(all.subarray(0, length))}`)
        expect(Array.from(whole(continued, 40 - length))).toEqual(Array.from(all.subarray(length)))
      }),
    )
  })

  it('the simulated language differs between models', () => {
    const prompt = encode('hello')
    const other = generate('other', prompt, { maxTokens: 20, mayStop: false, minTokens: 0 }).tokens
    expect(Array.from(other)).not.toEqual(Array.from(whole(prompt, 20)))
  })

  it('stops within the limit if it may stop', () => {
    const { tokens, stopped } = generate('m', encode('hello'), { maxTokens: 10_000, mayStop: true, minTokens: 5 })
    expect(stopped).toBe(true)
    expect(tokens.length).toBeGreaterThanOrEqual(5)
  })
})

describe('block keys', () => {
  it('block keys are equal exactly as far as two prompts are equal', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9), { maxLength: 60 }), fc.array(fc.nat(9), { maxLength: 60 }), (left, right) => {
        const [a, b] = [Uint32Array.from(left), Uint32Array.from(right)]
        const [keysA, keysB] = [blockKeys(a, 4, 's'), blockKeys(b, 4, 's')]
        for (let block = 0; block < Math.min(keysA.length, keysB.length) / 2; block += 1) {
          const same = left.slice(0, (block + 1) * 4).join() === right.slice(0, (block + 1) * 4).join()
          expect(keysA[block * 2] === keysB[block * 2] && keysA[block * 2 + 1] === keysB[block * 2 + 1]).toBe(same)
        }
      }),
    )
  })

  it('block keys differ by salt', () => {
    const tokens = Uint32Array.from({ length: 8 }, (_, at) => at)
    expect(Array.from(blockKeys(tokens, 4, 'a'))).not.toEqual(Array.from(blockKeys(tokens, 4, 'b')))
  })
})
