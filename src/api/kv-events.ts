/** `POST /v1/firstlight/kv-events`: KV events that a bridge received from engines. */
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/event-delta.ts'
import { lanesFromBase64 } from '../block-lanes.ts'
import { Failure } from '../failure.ts'
import { readJson } from './body/body.ts'
import type { Config } from '../config.ts'
import type { Ports } from '../ports.ts'
import type { ModelRegistry } from './model-registry.ts'
import { jsonResponse } from './json-response.ts'
import type { RequestContext } from './request-context.ts'
import { poolOf } from '../origin/pool-route.ts'

type JsonFields = Readonly<Record<string, unknown>>

/** Maximum pools, and feeds per pool. A body could have millions of empty ones. */
const MAX_ENTRIES = 1_000
/** Maximum validity of a feed without an update. */
const MAX_VALID_MS = 600_000

export interface KvEventParts {
  readonly config: Pick<Config, 'limits'>
  readonly ports: Pick<Ports, 'pool'>
  readonly models: Pick<ModelRegistry, 'routes'>
}

/** Applies the events of a bridge to the pools. */
export async function applyKvEvents(parts: KvEventParts, incoming: RequestContext): Promise<Response> {
  const { bodyBytes } = parts.config.limits
  const { json } = await readJson(incoming.request, { bodyBytes }, { memory: incoming.memory })
  return jsonResponse(incoming, {
    pools: await Promise.all(listOf(json['pools']).map((pool) => applyFeeds(parts, pool))),
  })
}

async function applyFeeds({ models, ports }: KvEventParts, { cluster, model, feeds }: JsonFields): Promise<object> {
  const deltas = listOf(feeds).map(readFeed)
  const route = models.routes.find((one) => one.cluster.id === cluster && one.pool.model === model)
  const states = route === undefined ? null : await poolOf(ports, route).kvEvents?.feed(deltas)
  // Blocks of prompts measured in bytes never match an engine's tokens.
  return {
    states: states ?? deltas.map((): KvEventDeltaState => 'unknown'),
    exact_tokens: route !== undefined && route.pool.tokenizer !== null,
  }
}

/** Only unreadable fields fail here. Useless values are rejected where they are applied. */
function readFeed(feed: JsonFields): KvEventDelta {
  return {
    engine: String(feed['engine']),
    epoch: Number(feed['epoch']),
    seq: Number(feed['seq']),
    reset: feed['reset'] === true,
    complete: feed['complete'] === true,
    validMs: Math.min(Number(feed['valid_ms']) || 0, MAX_VALID_MS),
    blockTokens: Number(feed['block_tokens']),
    lagMs: Number(feed['lag_ms']) || 0,
    stored: blocksOf(feed['stored']),
    removed: blocksOf(feed['removed']),
  }
}

function listOf(value: unknown): readonly JsonFields[] {
  if (!Array.isArray(value)) return []
  if (value.length > MAX_ENTRIES)
    throw new Failure('bad_value', `A list has ${value.length} entries. Send at most ${MAX_ENTRIES} at a time.`)
  return value.filter((one) => typeof one === 'object' && one !== null)
}

/** Decodes base64 of little-endian 32-bit lanes, two per block. */
function blocksOf(value: unknown): Uint32Array {
  if (typeof value !== 'string') return new Uint32Array(0)
  try {
    return lanesFromBase64(value)
  } catch (cause) {
    throw new Failure('bad_value', 'Blocks are base64 of 8 bytes each.', { cause })
  }
}
