/** From an engine's cache to the gateway's prediction, without sockets: only the messages of a bridge. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ENGINE_BLOCK, KvWorld } from './kv-fixture.ts'

const asks = fc.array(
  fc.record({
    conversation: fc.integer({ min: 0, max: 4 }),
    tokens: fc.integer({ min: 1, max: 500 }),
    salted: fc.boolean(),
  }),
  { minLength: 5, maxLength: 40 },
)

describe('a gateway with KV events of an engine', () => {
  it('a gateway with KV events of an engine predicts cached tokens exactly, for any prompts in any order', () => {
    let hits = 0
    let evictions = 0
    fc.assert(
      fc.property(asks, (list) => {
        const world = new KvWorld(ENGINE_BLOCK)
        for (const one of list) {
          const { predicted, cached } = world.ask(one)
          expect(predicted).toBe(cached)
          if (cached > 0) hits += 1
        }
        // Prompts of whole blocks leave two copies of their last block.
        expect(world.stream.log.size).toBeLessThanOrEqual(world.model.pool.namedCount)
        evictions += world.model.pool.evictions
      }),
      { numRuns: 150 },
    )
    expect([hits > 200, evictions > 1000]).toEqual([true, true])
  })

  it('a gateway with KV events of an engine predicts at most the cached tokens, and less than a block too few, with larger blocks of its own', () => {
    fc.assert(
      fc.property(asks, (list) => {
        const world = new KvWorld(ENGINE_BLOCK * 4)
        for (const one of list) {
          const { predicted, cached } = world.ask(one)
          expect(predicted).toBeLessThanOrEqual(cached)
          expect(cached - predicted).toBeLessThan(ENGINE_BLOCK * 4)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('a gateway with KV events of an engine does not count a repeated prompt that was evicted afterwards', () => {
    // The repeat causes no event: the first event after it is the prompt's eviction.
    for (const [blockTokens, list] of [
      [
        ENGINE_BLOCK,
        [
          [4, 256],
          [4, 256],
          [1, 900],
          [4, 257],
        ],
      ],
      [
        ENGINE_BLOCK * 4,
        [
          [0, 192],
          [4, 256],
          [4, 256],
          [0, 206],
          [1, 481],
          [0, 14],
          [2, 142],
          [4, 65],
        ],
      ],
    ] as const) {
      const world = new KvWorld(blockTokens)
      for (const [conversation, tokens] of list) {
        const { predicted, cached } = world.ask({ conversation, tokens, salted: false })
        expect(predicted, `${conversation}: ${tokens} of ${blockTokens}`).toBeLessThanOrEqual(cached)
      }
    }
  })
})
