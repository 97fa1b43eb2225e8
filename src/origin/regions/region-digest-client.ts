/** Fetches the digest of another Firstlight gateway: `GET /v1/firstlight/digest`. */
import type { Ports } from '../../ports.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import { ownRequest } from '../own-request.ts'
import type { PoolRoute } from '../pool-route.ts'
import { othersIn, readRegionDigestResponse, type RegionDigestResponse } from './region-digest-response.ts'

/** Reason why no digest came, with advice for the operator. */
export class RegionUnavailable extends Error {
  readonly next: string | null
  /** The gateway would serve requests nevertheless. */
  readonly servesRequests: boolean

  constructor(message: string, next: string | null, servesRequests: boolean) {
    super(message)
    this.name = 'RegionUnavailable'
    this.next = next
    this.servesRequests = servesRequests
  }
}

const CONNECT_MS = 2_000

const ANSWER_MS = 5_000

/** Limit of a reply, bytes. A filter is about 20 KB, and a region has few clusters. */
const ANSWER_BYTES = 1024 * 1024

export const REGION_DIGEST_PATH = '/v1/firstlight/digest'

/** Fetches the digests. Rejects with RegionUnavailable, or as the origin does. */
export async function fetchRegionDigests(
  origin: Ports['origin'],
  { pool, targets }: PoolRoute,
  own: string,
): Promise<RegionDigestResponse> {
  const [target] = targets.values()
  const path = `${REGION_DIGEST_PATH}?model=${encodeURIComponent(pool.model)}`
  const answer = await origin.send(
    ownRequest(target!, path, { headers: ['via', own], connectMs: CONNECT_MS, limitMs: ANSWER_MS }),
  )
  const response = readRegionDigestResponse(await jsonOf(answer))
  if (response === null)
    throw new RegionUnavailable(
      'the response is not a region digest',
      'Use compatible versions of Firstlight in both gateways.',
      true,
    )
  const others = othersIn(response, own)
  if (others === null) throw new RegionUnavailable('all its digests came from this gateway', ADVICE[508]!, false)
  return others
}

async function jsonOf(answer: OriginAnswer): Promise<unknown> {
  const { status } = answer
  const body = await answer.read(ANSWER_BYTES)
  if (status !== 200) throw new RegionUnavailable(`it answered ${status}`, ADVICE[status] ?? null, status === 403)
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return null
  }
}

const KEY_ADVICE =
  'Set `gateway.key` of the cluster. The configuration of the region must have the key with `edge: true`.'

const ADVICE: Readonly<Record<number, string>> = {
  401: KEY_ADVICE,
  403: KEY_ADVICE,
  404: 'The region does not serve this model, or is not a Firstlight gateway with region digests.',
  508: 'The URL of the cluster leads back to this gateway.',
}
