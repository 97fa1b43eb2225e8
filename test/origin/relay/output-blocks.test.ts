import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputBlocks } from '../../../src/origin/relay/output-blocks.ts'
import { TokensPerEvent } from '../../../src/origin/relay/tokens-per-event.ts'

const shape = { promptTokens: 64, blockTokens: 16, sequences: 1, tokensPerEvent: 1 }
const engine = { kind: 'server' as const, id: 'e', url: 'http://e', headers: [], binding: null }

/** Blocks after each event, by the calls that the relay makes. */
function growth(changes: Partial<typeof shape>, events: number, tokensAt?: (events: number) => number): number[] {
  const output = new OutputBlocks({ ...shape, ...changes })
  let next = output.firstEvents
  let blocks = 0
  return Array.from({ length: events }, (_, at) => {
    if (at + 1 >= next) ({ blocks, nextEvents: next } = output.take(at + 1, tokensAt?.(at + 1) ?? null))
    return blocks
  })
}

describe('output blocks', () => {
  it('output blocks are the blocks of prompt and output together, after each token', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 64 }), (promptTokens, blockTokens) => {
        expect(growth({ promptTokens, blockTokens }, 150)).toEqual(
          Array.from(
            { length: 150 },
            (_, at) => Math.ceil((promptTokens + at + 1) / blockTokens) - Math.ceil(promptTokens / blockTokens),
          ),
        )
      }),
    )
  })

  it('output blocks grow for each of several answers, which have a copy of the partial block each', () => {
    expect(growth({ promptTokens: 69, sequences: 2 }, 40).at(-1)).toBe(2 * Math.ceil((5 + 20) / 16) - 1)
  })

  it('output blocks grow by the tokens of an event', () => {
    expect(growth({ tokensPerEvent: 4 }, 40).at(-1)).toBe(10)
  })

  it('output blocks follow a usage that grows in the stream, and ignore one that does not', () => {
    expect(growth({}, 64, (events) => 3 * events).at(-1)).toBe(12)
    expect(growth({}, 64, () => 1).at(-1)).toBe(4)
  })

  it('output blocks are reported no more often than they grow', () => {
    const output = new OutputBlocks(shape)
    expect(output.take(1, null)).toEqual({ blocks: 1, nextEvents: 17 })
    expect(output.take(40, null)).toEqual({ blocks: 3, nextEvents: 49 })
  })
})

describe('tokens per event', () => {
  it('tokens per event are learned per engine and endpoint, whatever the query', () => {
    const ratios = new TokensPerEvent()
    ratios.learn(engine, '/v1/completions?a=1', { tokens: 300, events: 100 })
    expect(ratios.of(engine, '/v1/completions?b=2')).toBe(3)
    expect(ratios.of(engine, '/v1/chat/completions')).toBe(1)
    expect(ratios.of({ ...engine }, '/v1/completions')).toBe(1)
  })

  it('tokens per event follow an engine that begins to draft, and ignore streams without tokens', () => {
    const ratios = new TokensPerEvent()
    for (let stream = 0; stream < 100; stream++) ratios.learn(engine, '/c', { tokens: 1000, events: 1000 })
    for (let stream = 0; stream < 100; stream++) ratios.learn(engine, '/c', { tokens: 4000, events: 1000 })
    ratios.learn(engine, '/c', { tokens: 0, events: 5000 })
    expect(ratios.of(engine, '/c')).toBeCloseTo(4, 1)
  })
})
