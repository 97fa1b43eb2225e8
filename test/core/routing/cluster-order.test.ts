import { describe, expect, it } from 'vitest'
import type { PoolDigest, EngineDigest } from '../../../src/core/contract/pool-digest.ts'
import { type ClusterView, rankClusters } from '../../../src/core/routing/cluster-order.ts'
import { AffinityKeys } from '../../../src/core/routing/affinity-keys.ts'
import { fallbackPlacement } from '../../../src/core/pool/decision/fallback-placement.ts'
import { admission, engine } from '../../kit/pool-fixtures.ts'

function engineDigest(id: string, changes: Partial<EngineDigest> = {}): EngineDigest {
  return {
    id,
    role: 'any',
    weight: 1,
    available: true,
    healthy: true,
    draining: false,
    asleep: false,
    circuit: 'closed',
    requests: 0,
    activeBlocks: 0,
    queuedPrefillS: 0,
    cachedBlocks: 0,
    cacheBlocks: null,
    ttftMs: null,
    requestsTotal: 0,
    failuresTotal: 0,
    stats: null,
    ...changes,
  }
}

function digest(...engines: EngineDigest[]): PoolDigest {
  return { version: 1, cluster: 'c', pool: 'p', configVersion: 1, seq: 1, epoch: 'e', at: 0, bookings: 0, engines }
}

function view(id: string, changes: Partial<ClusterView> = {}): ClusterView {
  return { id, weight: 1, digest: digest(engineDigest('x')), ageMs: 0, unreachable: false, ...changes }
}

function shares(views: readonly ClusterView[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (let key = 0; key < 2_000; key++) {
    const id = rankClusters(views, key, () => 0)[0]!.id
    counts[id] = (counts[id] ?? 0) + 1 / 2_000
  }
  return counts
}

describe('ranking clusters', () => {
  it('the ranking of clusters shares by weight when all are idle', () => {
    const { paris, tokyo } = shares([view('paris', { weight: 3 }), view('tokyo')])
    expect(paris).toBeCloseTo(0.75, 1)
    expect(tokyo).toBeCloseTo(0.25, 1)
  })

  it('the ranking of clusters leans away from requests and from queued prefill', () => {
    const busy = view('paris', { digest: digest(engineDigest('x', { requests: 4 })) })
    const queued = view('paris', { digest: digest(engineDigest('x', { queuedPrefillS: 1 })) })
    expect(shares([busy, view('tokyo')])['paris']).toBeLessThan(0.1)
    expect(shares([queued, view('tokyo')])['paris']).toBeLessThan(0.1)
  })

  it('the ranking of clusters measures load by the engines that are there', () => {
    const halfDown = view('paris', {
      digest: digest(engineDigest('x', { requests: 4 }), engineDigest('y', { available: false, requests: 0 })),
    })
    const whole = view('tokyo', {
      digest: digest(engineDigest('x', { requests: 4 }), engineDigest('y', { requests: 0 })),
    })
    const ranks = rankClusters([halfDown, whole], 1, () => 0)
    expect(ranks.find(({ id }) => id === 'paris')?.cost).toBe(4)
    expect(ranks.find(({ id }) => id === 'tokyo')?.cost).toBe(2)
  })

  it('the ranking of clusters gives old digests less weight', () => {
    const [fresh, old] = [0, 60_000].map(
      (ageMs) =>
        shares([view('paris', { ageMs, digest: digest(engineDigest('x', { requests: 4 })) }), view('tokyo')])['paris']!,
    )
    expect(old).toBeGreaterThan(fresh! + 0.05)
  })

  it('the ranking of clusters treats an unknown cluster like the mean of the others', () => {
    const unknown = shares([
      view('paris', { digest: null }),
      view('tokyo', { digest: digest(engineDigest('x', { requests: 5 })) }),
    ])
    expect(unknown['paris']).toBeCloseTo(0.5, 1)
  })

  it('the ranking of clusters puts dark clusters last, whatever their weight', () => {
    const unreachable = view('paris', { weight: 100, unreachable: true })
    const down = view('rome', { weight: 100, digest: digest(engineDigest('x', { available: false })) })
    for (let key = 0; key < 50; key++) {
      const ranks = rankClusters([unreachable, down, view('tokyo')], key, () => 0)
      expect(ranks.map(({ unavailable: dark }) => dark)).toEqual([false, true, true])
    }
  })

  it('the ranking of clusters keeps a prompt on one cluster while loads are equal', () => {
    const views = ['paris', 'tokyo', 'rome'].map((id) => view(id))
    for (let key = 0; key < 50; key++) {
      const again = rankClusters(views.toReversed(), key, () => 0)
      expect(rankClusters(views, key, () => 0)[0]).toEqual(again[0])
    }
  })

  it('the ranking of clusters does not send every request to the lowest estimate, because all edges have the same one', () => {
    const expected = (waitS: number) => ({ waitS, roundTripS: 0, workS: 1, coldS: 1, confidence: 1 })
    const { paris, tokyo } = shares([
      view('paris', { estimate: expected(0) }),
      view('tokyo', { estimate: expected(0.1) }),
    ])
    expect(tokyo).toBeGreaterThan(0.33)
    expect(paris).toBeGreaterThan(0.55)
  })

  it('the ranking of clusters spreads prompts with a common system prompt over equal clusters', () => {
    const affinityKeys = new AffinityKeys()
    const views = [view('paris'), view('tokyo')]
    const firsts = Array.from({ length: 600 }, (_, talk) => {
      const blocks = Uint32Array.from({ length: 40 }, (__, at) =>
        Math.imul((at < 20 ? 0 : talk) * 65_537 + at + 1, 0x9e3779b1),
      )
      return rankClusters(views, affinityKeys.keyOf({ id: `${talk}`, blocks, session: null, tenant: '' }), () => 0)[0]!
        .id
    })
    const late = firsts.slice(300)
    expect(late.filter((id) => id === 'paris').length / late.length).toBeCloseTo(0.5, 1)
  })

  it('the ranking of clusters draws at random without a key', () => {
    const draws = [0.9, 0.1]
    expect(rankClusters([view('paris'), view('tokyo')], null, () => draws.shift()!)[0]?.id).toBe('tokyo')
  })
})

describe('fallbackPlacement', () => {
  const fleet = ['a', 'b', 'c', 'd'].map((id) => engine(id))
  const blocks = new Uint32Array([1, 2, 3, 4, 5, 6, 7, 8])

  it('fallbackPlacement sends the same first blocks to the same engine', () => {
    const first = fallbackPlacement(admission({ blocks }), fleet, null)
    const longer = fallbackPlacement(
      admission({ blocks: new Uint32Array([...blocks, 9, 9, 8, 8]) }),
      fleet.toReversed(),
      null,
    )
    expect(longer).toEqual(first)
  })

  it('fallbackPlacement uses the session if the request has one', () => {
    const placements = ['s', 's', 's'].map((session, index) =>
      fallbackPlacement(admission({ session, blocks: new Uint32Array([index, index]) }), fleet, null),
    )
    expect(new Set(placements.map((placement) => placement?.kind === 'whole' && placement.engine)).size).toBe(1)
  })

  it('fallbackPlacement leaves an engine above its share of requests', () => {
    const request = admission({ blocks })
    const placement = fallbackPlacement(request, fleet, null)
    if (placement?.kind !== 'whole') throw new Error('not whole')
    const hot = digest(...fleet.map(({ id }) => engineDigest(id, { requests: id === placement.engine ? 9 : 1 })))
    const placed = fallbackPlacement(request, fleet, hot)
    expect(placed?.kind === 'whole' && placed.engine).toBe(placement.runnersUp[0])
  })

  it('orders unavailable clusters last, but keeps them', () => {
    const downs = digest(...fleet.map(({ id }) => engineDigest(id, { available: id === 'c' })))
    const placed = fallbackPlacement(admission({ blocks }), fleet, downs)
    expect(placed).toMatchObject({ kind: 'whole', engine: 'c' })
    expect(placed?.runnersUp).toHaveLength(3)
    expect(fallbackPlacement(admission(), [fleet[0]!], downs)).toMatchObject({ engine: 'a' })
  })

  it('fallbackPlacement returns null if no engine serves the model or all have failed', () => {
    expect(fallbackPlacement(admission({ model: 'm' }), [engine('a', { models: ['other'] })], null)).toBeNull()
    expect(fallbackPlacement(admission({ avoid: ['a', 'b', 'c', 'd'] }), fleet, null)).toBeNull()
    expect(fallbackPlacement(admission(), [engine('a', { role: 'prefill' })], null)).toBeNull()
  })
})
