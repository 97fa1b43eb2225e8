import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  readMeasuredPrompt,
  readPromptOffer,
  writeMeasuredPrompt,
  writePromptOffer,
} from '../../../src/api/prompt/measured-prompt.ts'

const BLOCK_TOKENS = 16
const lane = fc.integer({ min: 1, max: 2 ** 32 - 1 })
const prompts = fc
  .record({
    fingerprint: lane,
    scope: fc.record({ lo: lane, hi: lane }),
    lanes: fc.array(fc.tuple(lane, lane), { maxLength: 3_000 }),
    rest: fc.nat(15),
    items: fc.nat(0),
  })
  .map(({ lanes, rest, ...common }) => ({
    ...common,
    promptTokens: lanes.length * BLOCK_TOKENS + rest,
    blocks: Uint32Array.from(lanes.flat()),
  }))

describe('a measured prompt', () => {
  it('a measured prompt is read as it was written', () => {
    fc.assert(
      fc.property(prompts, (prompt) => {
        const text = writeMeasuredPrompt(prompt, 48 * 1024)!
        expect(text).toMatch(/^[\w.+/=]+$/)
        expect(readMeasuredPrompt(text, BLOCK_TOKENS)).toEqual(prompt)
      }),
      { numRuns: 50 },
    )
  })

  it('a measured prompt is written only within the limit', () => {
    fc.assert(
      fc.property(prompts, fc.nat(40_000), (prompt, max) => {
        const { length } = writeMeasuredPrompt(prompt, Infinity)!
        expect(writeMeasuredPrompt(prompt, max) === null).toBe(length > max)
      }),
      { numRuns: 50 },
    )
  })

  it('a measured prompt that is damaged is null or a prompt with as many tokens as its blocks have, never an error', () => {
    const valid = fc.tuple(prompts, fc.nat(), fc.string({ unit: 'binary', maxLength: 2 })).map(([prompt, at, put]) => {
      const text = writeMeasuredPrompt(prompt, Infinity)!
      return text.slice(0, at % text.length) + put + text.slice((at % text.length) + 1)
    })
    fc.assert(
      fc.property(fc.oneof(fc.string(), valid), (text) => {
        const found = readMeasuredPrompt(text, BLOCK_TOKENS)
        if (found === null) return
        expect(Number.isSafeInteger(found.promptTokens)).toBe(true)
        expect((found.blocks.length / 2) * BLOCK_TOKENS).toBeLessThanOrEqual(found.promptTokens)
      }),
    )
  })

  it('a measured prompt with a block of zeros is malformed, because tables use it for an empty place', () => {
    const prompt = {
      fingerprint: 1,
      scope: { lo: 1, hi: 1 },
      promptTokens: 32,
      items: 0,
      blocks: Uint32Array.of(1, 0, 0, 0),
    }
    expect(readMeasuredPrompt(writeMeasuredPrompt(prompt, Infinity)!, BLOCK_TOKENS)).toBeNull()
  })
})

describe('the offer of a region', () => {
  it('the offer of a region is read as it was written, and nothing else is', () => {
    expect(readPromptOffer(writePromptOffer({ fingerprint: 7, bytes: 8192 }))).toEqual({ fingerprint: 7, bytes: 8192 })
    const others = [null, '', '1', '1.7', '2.7.8192', '1.7.-1', '1.7.8192.1', 'x']
    expect(others.filter((text) => readPromptOffer(text) !== null)).toEqual([])
  })
})
