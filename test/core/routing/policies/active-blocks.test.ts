import { expect, it } from 'vitest'
import { asRanked, candidates, policyNamed, rankingBy, routeRequest } from '../ranked-policy.ts'

const { order, costs } = rankingBy('active_blocks')

it('active_blocks costs overlap weight x uncached blocks + potential blocks', () => {
  // 10 prompt blocks and a tail = ceil(650/64) = 11; 4 of them cached on b.
  const fleet = {
    a: { activeBlocks: 20, newActiveBlocks: 11 },
    b: { activeBlocks: 26, newActiveBlocks: 7, cachedTokens: 256 },
  }
  expect(costs(650, fleet)).toEqual({ a: 11 + 31, b: 7 + 33 })
  expect(costs(650, fleet, { overlapWeight: 0.25 })).toEqual({ a: 2.75 + 31, b: 1.75 + 33 })
})

it('active_blocks ranks by load alone with overlap weight 0', () => {
  const fleet = {
    cached: { cachedTokens: 640, activeBlocks: 9, newActiveBlocks: 1 },
    light: { activeBlocks: 1, newActiveBlocks: 8 },
  }
  expect(order(650, fleet)[0]).toBe('cached')
  expect(order(650, fleet, { overlapWeight: 0 })[0]).toBe('light')
})

it('active_blocks draws by exp(-cost / (max x temperature))', () => {
  const fleet = candidates({ a: { activeBlocks: 10 }, b: { activeBlocks: 20 } })
  const made = policyNamed('active_blocks', { temperature: 0.5, overlapWeight: 0 })
  // Costs 10 and 20, over the largest: 0.5 and 1. b has e^-1 against a's 1.
  const shareOfA = 1 / (1 + Math.exp(-1))
  const winner = (draw: number): string => asRanked(made, routeRequest(0), fleet, () => draw)[0]!.engine
  expect([winner(shareOfA - 1e-9), winner(shareOfA + 1e-9)]).toEqual(['a', 'b'])
})

it('active_blocks lists every engine once for any draw', () => {
  const fleet = candidates({ a: { activeBlocks: 1 }, b: { activeBlocks: 2 }, c: { activeBlocks: 3 } })
  for (const draw of [0, 0.4, 0.7, 0.999999]) {
    const ranked = asRanked(policyNamed('active_blocks', { temperature: 2 }), routeRequest(64), fleet, () => draw)
    expect(ranked.map(({ engine }) => engine).sort()).toEqual(['a', 'b', 'c'])
  }
})

it('active_blocks has the present cost of Dynamo with rule: today', () => {
  // Example of Dynamo's docs: of costs 18, 10 and 11, worker 2 wins. Computed by hand in blocks of 64:
  // a: queued 128 + 640 -> 12 blocks, no credit, potential 5 + 10
  // b: 640 -> 10 blocks, 4 on the GPU and 4 in host memory (3 credit), potential 12 + 2
  const fleet = {
    a: { queuedPrefillTokens: 128, activeBlocks: 5, newActiveBlocks: 10, requests: 1 },
    b: {
      cachedTokens: 512,
      slowTokens: { host: 256, disk: 0, remote: 0 },
      activeBlocks: 12,
      newActiveBlocks: 2,
      requests: 3,
    },
  }
  expect(costs(640, fleet, { rule: 'today' })).toEqual({ a: 12 + 15, b: 10 - 7 + 14 })
  expect(costs(640, fleet, { rule: 'today', requestWeight: 4 })).toEqual({ a: 27 + 4, b: 17 + 12 })
  expect(costs(640, fleet, { rule: 'today', overlapWeight: 0 })).toEqual({ a: 15, b: 14 })
})

it('active_blocks reduces the GPU credit with the queue beyond the shortest one', () => {
  // excess = 640/64 = 10 blocks, request 10 blocks: 1/(1 + 1 x 10/10) halves the credit of 8.
  const fleet = { busy: { queuedPrefillTokens: 640, cachedTokens: 512 }, idle: {} }
  expect(costs(640, fleet, { rule: 'today', creditDecay: 1 })).toEqual({ busy: 20 - 4, idle: 10 })
})
