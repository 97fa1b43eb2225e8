/** Fetches the digest of another Firstlight gateway: `GET /v1/firstlight/digest`. */
import {
  DIGEST_VERSION,
  type EngineEstimate,
  type RegionDigest,
  TYPICAL_TOKENS,
} from '../../core/contract/region-digest.ts'
import type { RegionStatus } from '../../core/contract/region-status.ts'
import { estimateTtft } from '../../core/contract/ttft-estimate.ts'
import { isJsonObject } from '../../core/json.ts'
import type { Ports } from '../../ports.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { PoolRoute } from '../exchange.ts'

type Way = Pick<RegionStatus, 'reachable' | 'ageMs' | 'rttMs' | 'blockingMatch'>

export function regionStatusOf(regionDigests: readonly RegionDigest[], way: Way): RegionStatus {
  const sum = (of: (digest: RegionDigest) => number) => regionDigests.reduce((all, one) => all + of(one), 0)
  const waits = regionDigests.flatMap((one) => {
    const estimate = estimateTtft(one, TYPICAL_TOKENS, 0)
    return estimate === null ? [] : (estimate.waitS + estimate.prefillS) * 1000 + way.rttMs
  })
  return {
    ...way,
    engines: sum(({ engines }) => engines),
    requests: sum(({ requests }) => requests),
    queued: Math.round(sum(({ engines, queued }) => engines * queued)),
    expectedTtftMs: waits.length === 0 ? null : Math.min(...waits),
  }
}

/** Digest reply for one model. */
export interface RegionDigestReply {
  /** Fingerprint of the block division; equal numbers mean equal blocks. null: no blocks. */
  readonly cut: number | null
  /** One digest per cluster that has the model. */
  readonly regionDigests: readonly RegionDigest[]
}

/** Longest name of a gateway, and most gateways on one path. */
const LONGEST_NAME = 64

const MOST_NAMES = 16

/** Reason why no digest came, with advice for the operator. */
export class RegionUnavailable extends Error {
  readonly next: string | null
  /** The gateway would serve requests nevertheless. */
  readonly isThere: boolean

  constructor(message: string, next: string | null, isThere: boolean) {
    super(message)
    this.name = 'NotTold'
    this.next = next
    this.isThere = isThere
  }
}

const CONNECT_MS = 2_000

const ANSWER_MS = 5_000

/** Limit of a reply, bytes. A filter is about 20 KB, and a region has few clusters. */
const ANSWER_BYTES = 1024 * 1024

const MAX_DIGESTS = 64

export const REGION_DIGEST_PATH = '/v1/firstlight/digest'

/** Fetches the digests. Rejects with RegionUnavailable, or as the origin does. */
export async function fetchRegionDigests(
  origin: Ports['origin'],
  { pool, targets }: PoolRoute,
  own: string,
): Promise<RegionDigestReply> {
  const [target] = targets.values()
  const answer = await origin.send({
    target: target!,
    method: 'GET',
    path: `${REGION_DIGEST_PATH}?model=${encodeURIComponent(pool.model)}`,
    headers: ['accept-encoding', 'identity', 'via', own],
    body: null,
    connectMs: CONNECT_MS,
    firstByteMs: ANSWER_MS,
    signal: new AbortController().signal,
  })
  const told = readTold(await jsonOf(answer))
  if (told === null)
    throw new RegionUnavailable(
      'the response is not a region digest',
      'Both gateways must be of versions that know each other.',
      true,
    )
  const others = othersIn(told, own)
  if (others === null) throw new RegionUnavailable('all that it knows of leads back here', NEXT[508]!, false)
  return others
}

/**
 * Removes digests that came from this gateway: two gateways that name each other would otherwise exchange growing
 * copies. null: nothing else is left.
 */
export function othersIn(told: RegionDigestReply, own: string): RegionDigestReply | null {
  const regionDigests = told.regionDigests.filter(({ via = [] }) => !via.includes(own) && via.length < MOST_NAMES)
  return regionDigests.length === 0 && told.regionDigests.length > 0 ? null : { ...told, regionDigests }
}

async function jsonOf(answer: OriginAnswer): Promise<unknown> {
  const { status } = answer
  const body = await answer.read(ANSWER_BYTES)
  if (status !== 200) throw new RegionUnavailable(`it answered ${status}`, NEXT[status] ?? null, status === 403)
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return null
  }
}

const KEY = 'Give the gateway its `key`; over there the key must say `edge: true`.'

const NEXT: Readonly<Record<number, string>> = {
  401: KEY,
  403: KEY,
  404: 'It does not serve this model, or is no Firstlight that tells what it expects.',
  508: 'Its address leads back to this gateway.',
}

/** Validates a reply from another gateway. null: invalid. */
export function readTold(given: unknown): RegionDigestReply | null {
  if (!isJsonObject(given) || !Array.isArray(given['region_digests']) || given['region_digests'].length > MAX_DIGESTS)
    return null
  const { cut } = given
  const regionDigests = given['region_digests'].map(readDigest)
  return regionDigests.includes(null)
    ? null
    : { cut: typeof cut === 'number' ? cut : null, regionDigests: regionDigests as RegionDigest[] }
}

function readDigest(given: unknown): RegionDigest | null {
  if (!isJsonObject(given) || given['version'] !== DIGEST_VERSION) return null
  const { cluster, pool, engines, requests, queued, confidence, prefixes, soonest, usual, via } = given
  if (typeof cluster !== 'string' || typeof pool !== 'string' || typeof prefixes !== 'string' || !isNames(via))
    return null
  if (!isCount(engines) || !isCount(requests) || !isAmount(queued) || !isAmount(confidence) || confidence > 1)
    return null
  const read = { soonest: readEngineEstimate(soonest), usual: readEngineEstimate(usual) }
  // A digest with engines must say which is free soonest.
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
    value.length <= 2 * MOST_NAMES &&
    value.every((one) => typeof one === 'string' && one.length <= LONGEST_NAME))

const isCount = (value: unknown): value is number => isAmount(value) && Number.isInteger(value)

const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 1e9
