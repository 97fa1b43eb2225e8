/** Calls the admin API of another Firstlight gateway, with its admin key. */
import { isJsonObject } from '../../core/json.ts'
import type { Ports } from '../../ports.ts'
import { ownRequest } from '../own-request.ts'
import type { PoolRoute } from '../pool-route.ts'

/** Answer of another gateway. */
export interface RegionAnswer {
  readonly status: number
  /** Empty: it is no JSON object. */
  readonly json: Readonly<Record<string, unknown>>
}

interface RegionCall {
  readonly method: 'GET' | 'POST'
  /** With the query. */
  readonly path: string
  /** `x-request-id` of the operator's request, for the region's log. */
  readonly requestId: string
}

const CONNECT_MS = 5_000

const ANSWER_MS = 15_000

/** Limit of an answer, bytes: views of a few thousand engines. */
const ANSWER_BYTES = 8 * 1024 * 1024

/** Rejects as the origin does. */
export async function callRegion(
  origin: Ports['origin'],
  { cluster, targets }: PoolRoute,
  { method, path, requestId }: RegionCall,
): Promise<RegionAnswer> {
  const [target] = targets.values()
  const headers = [...withoutKey(target!.headers), 'authorization', `Bearer ${cluster.gateway?.adminKey ?? ''}`]
  const answer = await origin.send(
    ownRequest({ ...target!, headers }, path, {
      method,
      headers: ['x-request-id', requestId],
      connectMs: CONNECT_MS,
      limitMs: ANSWER_MS,
    }),
  )
  return { status: answer.status, json: objectIn(await answer.read(ANSWER_BYTES)) }
}

function withoutKey(flat: readonly string[]): readonly string[] {
  return flat.filter((_, at) => flat[at - (at % 2)] !== 'authorization')
}

function objectIn(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(body))
    return isJsonObject(json) ? json : {}
  } catch {
    return {}
  }
}
