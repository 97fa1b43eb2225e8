import { describe, expect, it } from 'vitest'
import type { RegionDigest } from '../../../src/core/contract/region-digest.ts'
import { DIGEST_VERSION } from '../../../src/core/contract/region-digest.ts'
import { regionStatusOf } from '../../../src/origin/regions/region-status.ts'

const way = { reachable: true, ageMs: 700, rttMs: 30, blockingMatch: true }
const costModel = (perTokenS: number) => ({ fixedS: 0, perTokenS, perPairS: 0 })
const regionDigest = (more: Partial<RegionDigest> = {}): RegionDigest => {
  const engineEstimate = { waitS: 0.5, costModel: costModel(0.001) }
  return {
    version: DIGEST_VERSION,
    cluster: 'c',
    pool: 'm',
    configVersion: 1,
    engines: 4,
    requests: 7,
    queued: 0.25,
    confidence: 1,
    soonest: engineEstimate,
    usual: engineEstimate,
    prefixes: '',
    ...more,
  }
}

describe('the status of another gateway', () => {
  it('the status of another gateway is the sum of its clusters, and the soonest of them', () => {
    const idle = { waitS: 0, costModel: costModel(0.0001) }
    expect(
      regionStatusOf(
        [regionDigest(), regionDigest({ engines: 2, requests: 1, queued: 1, soonest: idle, usual: idle })],
        way,
      ),
    ).toMatchObject({ ...way, engines: 6, requests: 8, queued: 3, expectedTtftMs: expect.closeTo(30 + 102.4) })
  })

  it('the status of another gateway has no predicted TTFT if no engine is available', () => {
    expect(regionStatusOf([regionDigest({ engines: 0, queued: 0, soonest: null, usual: null })], way)).toMatchObject({
      engines: 0,
      queued: 0,
      requests: 7,
      expectedTtftMs: null,
    })
    expect(regionStatusOf([], way)).toMatchObject({ engines: 0, requests: 0, expectedTtftMs: null })
  })
})
