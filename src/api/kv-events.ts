/** `POST /v1/firstlight/kv-events`: KV events that a bridge received from engines. */
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/delta-log.ts'
import { lanesFromBase64 } from '../bytes.ts'
import { Failure } from '../failure.ts'
import { readJson } from './body.ts'
import type { GatewayContext } from './context.ts'
import { answerJson, type RequestContext } from './request-context.ts'
import { keyOrAdmin } from './auth.ts'

type Fields = Readonly<Record<string, unknown>>

/** Maximum pools, and feeds per pool. A body could have millions of empty ones. */
const MOST_ENTRIES = 1_000
/** Maximum validity of a feed without an update. */
const MOST_VALID_MS = 600_000

/** Handles a request. Needs `bridge.secret` or the admin key. */
export function kvEventsHandler(context: GatewayContext): (incoming: RequestContext) => Promise<Response> {
  const admit = keyOrAdmin(context.authenticator, context.config.bridge?.secret ?? null, 'bridge.secret')
  return async (incoming) => {
    await admit(incoming.request.headers)
    const { json } = await readJson(
      incoming.request,
      { bodyBytes: context.config.limits.bodyBytes },
      { memory: incoming.memory },
    )
    return answerJson(incoming, { pools: await Promise.all(listOf(json['pools']).map((pool) => taken(context, pool))) })
  }
}

async function taken(context: GatewayContext, { cluster, model, feeds }: Fields): Promise<object> {
  const given = listOf(feeds).map(readFeed)
  const route = context.catalog.routes.find((one) => one.cluster.id === cluster && one.pool.model === model)
  const states =
    route === undefined ? null : await context.ports.cluster(route.cluster.id, route.pool.model).feed?.(given)
  // Blocks of prompts measured in bytes never match an engine's tokens.
  return {
    states: states ?? given.map((): KvEventDeltaState => 'unknown'),
    exact_tokens: route !== undefined && route.pool.tokenizer !== null,
  }
}

/** Only unreadable fields fail here. Useless values are rejected where they are applied. */
function readFeed(given: Fields): KvEventDelta {
  return {
    engine: String(given['engine']),
    epoch: Number(given['epoch']),
    seq: Number(given['seq']),
    reset: given['reset'] === true,
    complete: given['complete'] === true,
    validMs: Math.min(Number(given['valid_ms']) || 0, MOST_VALID_MS),
    blockTokens: Number(given['block_tokens']),
    lagMs: Number(given['lag_ms']) || 0,
    stored: blocksOf(given['stored']),
    removed: blocksOf(given['removed']),
  }
}

function listOf(given: unknown): readonly Fields[] {
  if (!Array.isArray(given)) return []
  if (given.length > MOST_ENTRIES)
    throw new Failure('bad_value', `A list has ${given.length} entries. Send at most ${MOST_ENTRIES} at a time.`)
  return given.filter((one) => typeof one === 'object' && one !== null)
}

/** Decodes base64 of little-endian 32-bit lanes, two per block. */
function blocksOf(given: unknown): Uint32Array {
  if (typeof given !== 'string') return new Uint32Array(0)
  try {
    return lanesFromBase64(given)
  } catch (cause) {
    throw new Failure('bad_value', 'Blocks are base64 of 8 bytes each.', { cause })
  }
}
