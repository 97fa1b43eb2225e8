/** kv-events.test.ts with faults. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ENGINE_BLOCK, KvWorld } from './kv-fixture.ts'

const ask = fc.record({
  conversation: fc.integer({ min: 0, max: 3 }),
  // Every other prompt fills its blocks: then the last one is computed again and stored twice.
  tokens: fc.oneof(
    fc.integer({ min: 1, max: 500 }),
    fc.integer({ min: 1, max: 31 }).map((blocks) => blocks * ENGINE_BLOCK),
  ),
  salted: fc.boolean(),
})
const happening = fc.oneof(
  { weight: 24, arbitrary: fc.record({ do: fc.constant('ask' as const), ask, answerLost: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('ask unheard' as const), ask }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('ask at once' as const),
      asks: fc.array(ask, { minLength: 2, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('cancel' as const), ask, steps: fc.integer({ min: 0, max: 4 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), batches: fc.integer({ min: 1, max: 4 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'resetCache' as const,
        'restartEngine' as const,
        'restartGateway' as const,
        'restartBridge' as const,
      ),
    }),
  },
)
type Happening = typeof happening extends fc.Arbitrary<infer One> ? One : never

/** null: the step had no request to compare. */
function happens(world: KvWorld, happened: Happening): { readonly predicted: number; readonly cached: number } | null {
  switch (happened.do) {
    case 'ask': {
      const { isExact } = world
      const one = world.begin(happened.ask)
      world.finish([one])
      world.tell({ answerLost: happened.answerLost })
      return isExact ? { predicted: one.predicted, cached: one.sequence.cachedTokens } : null
    }
    case 'ask unheard':
      world.finish([world.begin(happened.ask)])
      world.finish([world.begin({ ...happened.ask, salted: !happened.ask.salted })])
      world.settle()
      return null
    case 'ask at once':
      world.finish(happened.asks.map((one) => world.begin(one)))
      world.settle()
      return null
    case 'cancel': {
      const one = world.begin(happened.ask)
      for (let step = 0; step < happened.steps && !one.sequence.ended; step += 1) world.step()
      if (one.sequence.ended) world.finish([one])
      else world.cancel(one)
      world.tell()
      return null
    }
    case 'lose':
      world.toLose += happened.batches
      return null
    default:
      world[happened.do]()
      world.settle()
      return null
  }
}

describe('KV events with faults on the way', () => {
  it.each([1, 4])('what counts as exact is, to a block of %i of the engine’s', (ratio) => {
    let compared = 0
    let hits = 0
    fc.assert(
      fc.property(
        fc.array(happening, { minLength: 5, maxLength: 40 }),
        fc.constantFrom(4, 1000),
        (day, keptBatches) => {
          const world = new KvWorld(ENGINE_BLOCK * ratio, keptBatches)
          for (const one of day) {
            const found = happens(world, one)
            if (found === null) continue
            const { predicted, cached } = found
            expect(predicted).toBeLessThanOrEqual(cached)
            expect(cached - predicted).toBeLessThan(ENGINE_BLOCK * ratio)
            compared += 1
            if (cached > 0) hits += 1
          }
        },
      ),
      { numRuns: 100 },
    )
    expect([compared > 300, hits > 50]).toEqual([true, true])
  })
})
