/** Response to `GET /v1/firstlight/digest`, and its validation. */
import { DIGEST_VERSION, type EngineEstimate, type RegionDigest } from '../../core/contract/region-digest.ts'
import { isJsonObject } from '../../core/json.ts'

/** Digest reply for one model. */
export interface RegionDigestResponse {
  /** Fingerprint of the block division; equal numbers mean equal blocks. null: no blocks. */
  readonly fingerprint: number | null
  /** One digest per cluster that has the model. */
  readonly regionDigests: readonly RegionDigest[]
}

/** Longest name of a gateway. */
const MAX_NAME_CHARS = 64

const MAX_HOPS = 16

const MAX_DIGESTS = 64

/**
 * Removes digests that came from this gateway: two gateways that name each other would otherwise exchange growing
 * copies. null: nothing else is left.
 */
export function othersIn(response: RegionDigestResponse, own: string): RegionDigestResponse | null {
  const regionDigests = response.regionDigests.filter(({ via = [] }) => !via.includes(own) && via.length < MAX_HOPS)
  return regionDigests.length === 0 && response.regionDigests.length > 0 ? null : { ...response, regionDigests }
}

/** Validates a reply from another gateway. null: invalid. */
export function readRegionDigestResponse(given: unknown): RegionDigestResponse | null {
  if (!isJsonObject(given) || !Array.isArray(given['region_digests']) || given['region_digests'].length > MAX_DIGESTS)
    return null
  const { cut: fingerprint } = given
  const regionDigests = given['region_digests'].map(readDigest)
  return regionDigests.includes(null)
    ? null
    : {
        fingerprint: typeof fingerprint === 'number' ? fingerprint : null,
        regionDigests: regionDigests as RegionDigest[],
      }
}

function readDigest(given: unknown): RegionDigest | null {
  if (!isJsonObject(given) || given['version'] !== DIGEST_VERSION) return null
  const { cluster, pool, engines, requests, queued, confidence, prefixes, soonest, usual, via } = given
  if (typeof cluster !== 'string' || typeof pool !== 'string' || typeof prefixes !== 'string' || !isNames(via))
    return null
  if (!isCount(engines) || !isCount(requests) || !isAmount(queued) || !isAmount(confidence) || confidence > 1)
    return null
  const read = { soonest: readEngineEstimate(soonest), usual: readEngineEstimate(usual) }
  // A digest with engines must have the estimate of the engine that is free soonest.
  if (engines > 0 !== (read.soonest !== null) || engines > 0 !== (read.usual !== null)) return null
  const configVersion = isAmount(given['config_version']) ? given['config_version'] : 0
  return {
    version: DIGEST_VERSION,
    cluster,
    pool,
    configVersion,
    engines,
    requests,
    queued,
    confidence,
    prefixes,
    ...read,
    ...(via === undefined ? {} : { via }),
  }
}

function readEngineEstimate(given: unknown): Pick<EngineEstimate, 'waitS' | 'costModel'> | null {
  if (!isJsonObject(given) || !isJsonObject(given['cost_model'])) return null
  const { wait_s: waitS } = given
  const { fixed_s: fixedS, per_token_s: perTokenS, per_pair_s: perPairS } = given['cost_model']
  return isAmount(waitS) && isAmount(fixedS) && isAmount(perTokenS) && isAmount(perPairS)
    ? { waitS, costModel: { fixedS, perTokenS, perPairS } }
    : null
}

const isNames = (value: unknown): value is readonly string[] | undefined =>
  value === undefined ||
  (Array.isArray(value) &&
    value.length <= 2 * MAX_HOPS &&
    value.every((one) => typeof one === 'string' && one.length <= MAX_NAME_CHARS))

const isCount = (value: unknown): value is number => isAmount(value) && Number.isInteger(value)

const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 1e9
