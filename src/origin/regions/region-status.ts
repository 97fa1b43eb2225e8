/** Summary of a region's digests for operators. */
import { type RegionDigest, TYPICAL_TOKENS } from '../../core/contract/region-digest.ts'
import type { RegionStatus } from '../../core/contract/region-status.ts'
import { estimateTtft } from '../../core/contract/ttft-estimate.ts'

type RegionLink = Pick<RegionStatus, 'reachable' | 'ageMs' | 'rttMs' | 'blockingMatch'>

export function regionStatusOf(regionDigests: readonly RegionDigest[], link: RegionLink): RegionStatus {
  const sum = (of: (digest: RegionDigest) => number) => regionDigests.reduce((all, one) => all + of(one), 0)
  const waits = regionDigests.flatMap((one) => {
    const estimate = estimateTtft(one, TYPICAL_TOKENS, 0)
    return estimate === null ? [] : (estimate.waitS + estimate.prefillS) * 1000 + link.rttMs
  })
  return {
    ...link,
    engines: link.reachable ? sum(({ engines }) => engines) : 0,
    requests: sum(({ requests }) => requests),
    queued: Math.round(sum(({ engines, queued }) => engines * queued)),
    expectedTtftMs: waits.length === 0 || !link.reachable ? null : Math.min(...waits),
  }
}
