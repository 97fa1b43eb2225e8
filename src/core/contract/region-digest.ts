/**
 * Region digest: expected TTFT and known prefixes of a pool, for gateways in other regions. Small enough to be fetched
 * every other second.
 */
import { blend, type PrefillCostModel, prefillSeconds } from '../latency/prefill-cost-model.ts'

/** Estimate for a new prompt on one engine. */
export interface EngineEstimate {
  /** Seconds until the engine starts the prompt: network, and queued prefill or the wait for a place. */
  readonly waitS: number
  /** Prompts without a first token. */
  readonly queued: number
  readonly costModel: PrefillCostModel
  /** Confidence of the cost model, 0..1. */
  readonly confidence: number
}

export interface RegionDigest {
  readonly version: number
  readonly cluster: string
  readonly pool: string
  readonly configVersion: number
  /** Number of available engines. */
  readonly engines: number
  /** Requests booked and not released. */
  readonly requests: number
  /** Mean number of prompts without a first token per engine. */
  readonly queued: number
  /** Confidence of the best-known cost model. */
  readonly confidence: number
  /** Engine with the earliest first token, and the median engine; null: none. */
  readonly soonest: Pick<EngineEstimate, 'waitS' | 'costModel'> | null
  readonly usual: Pick<EngineEstimate, 'waitS' | 'costModel'> | null
  /** Prefixes that engines hold, as `PrefixFilter` reads them. */
  readonly prefixes: string
  /** Gateways that relayed the digest, its owner first. Absent: none. */
  readonly via?: readonly string[]
}

export const DIGEST_VERSION = 1

/** New tokens of the prompt by which engines are compared. */
export const TYPICAL_TOKENS = 1024

const PROBE = { promptTokens: TYPICAL_TOKENS, cachedTokens: 0 }

type DigestFacts = Pick<RegionDigest, 'cluster' | 'pool' | 'configVersion' | 'requests' | 'prefixes'>

/** @param engineEstimates estimates of the available engines */
export function regionDigestOf(engineEstimates: readonly EngineEstimate[], facts: DigestFacts): RegionDigest {
  const common = commonCostModel(engineEstimates)
  // Among several engines with few samples, one always seems fast by chance.
  const ranked = engineEstimates
    .map(({ waitS, costModel, confidence }) => ({
      waitS,
      costModel: common === null ? costModel : blend(costModel, common, confidence),
    }))
    .sort((a, b) => doneS(a) - doneS(b))
  const count = ranked.length
  const queued = count === 0 ? 0 : engineEstimates.reduce((sum, one) => sum + one.queued, 0) / count
  const confidence = Math.max(0, ...engineEstimates.map((one) => one.confidence))
  return {
    version: DIGEST_VERSION,
    ...facts,
    engines: count,
    queued,
    confidence,
    soonest: ranked[0] ?? null,
    usual: ranked[count >> 1] ?? null,
  }
}

const doneS = ({ waitS, costModel }: Pick<EngineEstimate, 'waitS' | 'costModel'>): number =>
  waitS + prefillSeconds(costModel, PROBE)

/** Mean of all engines, weighted by confidence; null: none. */
function commonCostModel(engineEstimates: readonly EngineEstimate[]): PrefillCostModel | null {
  let common: PrefillCostModel | null = null
  let known = 0
  for (const { costModel, confidence } of engineEstimates) {
    known += confidence
    if (confidence > 0) common = common === null ? costModel : blend(costModel, common, confidence / known)
  }
  return common
}
