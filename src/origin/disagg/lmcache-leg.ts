/**
 * LMCache's prefill/decode protocol (`disagg_proxy_server.py`, production-stack#890): the prefill engine pushes its KV
 * cache to the decode engine that the request names, and returns the first token. Both legs are completions of token
 * ids.
 */
import type { JsonObject } from '../../core/json.ts'
import { concatBytes } from '../../core/bytes.ts'
import type { LmcacheReceiver } from '../../config.ts'
import { hasBackslashKey } from '../../core/backslash-keys.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { OriginError } from '../../ports/origin.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { ownRequest } from '../own-request.ts'
import { callLeg, type LegOutcome } from './call-leg.ts'
import { type LegResult, wholeLeg } from './final-leg.ts'
import { firstTokenTransform } from './first-token.ts'
import { copiedFields } from './lmcache-fields.ts'

interface SplitRequest {
  readonly attempt: AttemptContext
  readonly prefill: EngineTarget
  readonly receiver: LmcacheReceiver
  /** The client's body with the gateway's edits: the engine's model name and the tenant's cache salt. */
  readonly json: JsonObject
  /** Unique id of this transfer and attempt. */
  readonly transferId: string
}

interface FirstToken {
  readonly id: number
  readonly text: string
}

const COMPLETIONS = '/v1/completions'

const encoder = new TextEncoder()

export async function lmcacheLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, ports, placed, stages } = attempt
  const receiver = placed.route.pool.split.lmcache.receivers[placed.engine.id]
  if (receiver === undefined) throw new Error(`no lmcache receiver is configured for ${placed.engine.id}`)
  const json = editedBody(attempt)
  // V8 may misread a name here that `readJson` read correctly. A leg would then have another model or no salt; the
  // bytes are correct.
  if (hasBackslashKey(json)) return { finalLeg: wholeLeg(attempt, ['kv_transfer=misread']) }
  const split: SplitRequest = { attempt, prefill, receiver, json, transferId: ports.newId() }
  const startedAt = ports.now()
  const ids = await promptIds(split)
  if (!Array.isArray(ids)) return ids as LegResult
  const leg = await callLeg(attempt, {
    target: prefill,
    path: COMPLETIONS,
    body: bodyOf(prefillBody(split, ids)),
    limitMs: placed.route.pool.limits.prefillMs,
  })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const first = firstTokenOf(leg.answer.json)
  // The KV cache has arrived: the decode engine generates the same token itself.
  if (typeof first === 'string') return { finalLeg: wholeLeg(attempt, [`kv_transfer=${first}`]) }
  if (!(await waitForTransfer(split))) return { finalLeg: wholeLeg(attempt, ['kv_transfer=late']) }
  const body = bodyOf(decodeBody(split, [...ids, first.id]))
  return {
    finalLeg: {
      target: placed.engine,
      path: COMPLETIONS,
      body,
      notes: [],
      transform: firstTokenTransform(exchange.protocol.asCompletion!, first.text),
    },
  }
}

function editedBody({ exchange, placed }: AttemptContext): JsonObject {
  const pieces = exchange.source.body(placed.route)!
  let size = 0
  for (const piece of pieces) size += piece.length
  return JSON.parse(new TextDecoder().decode(concatBytes(pieces, size))) as JsonObject
}

const bodyOf = (json: JsonObject): readonly Uint8Array[] => [encoder.encode(JSON.stringify(json))]

/** Token ids of the prompt, from the client or from the prefill engine's template. */
async function promptIds({
  attempt,
  prefill,
  json,
}: SplitRequest): Promise<readonly number[] | Exclude<LegOutcome, { answer: unknown }>> {
  // A single prompt may be in a list.
  const { prompt: given } = json
  const prompt: unknown = Array.isArray(given) && typeof given[0] !== 'number' ? given[0] : given
  if (Array.isArray(prompt)) return prompt as number[]
  const { model, add_special_tokens } = json
  const fields = attempt.exchange.protocol.asCompletion!.tokenizeFields({ ...json, prompt })
  const tokenizeRequest = { model, add_special_tokens, ...fields }
  const { limits } = attempt.placed.route.pool
  const leg = await callLeg(attempt, {
    target: prefill,
    path: '/tokenize',
    body: bodyOf(tokenizeRequest),
    limitMs: limits.prefillMs,
  })
  if (!('answer' in leg)) return leg
  const { tokens } = leg.answer.json
  if (Array.isArray(tokens) && tokens.every((id) => Number.isInteger(id))) return tokens as number[]
  return { failed: { engine: prefill, failure: 'malformed', status: 200 } }
}

function prefillBody({ attempt, receiver, json, transferId }: SplitRequest, ids: readonly number[]): JsonObject {
  // The first token counts towards `min_tokens`, so it must not be an end of sequence either.
  const minTokens = typeof json['min_tokens'] === 'number' && json['min_tokens'] > 0 ? { min_tokens: 1 } : {}
  const spec = {
    req_id: transferId,
    receiver_host: receiver.host,
    receiver_init_port: receiver.initPorts,
    receiver_alloc_port: receiver.allocPorts,
  }
  attempt.ports.log.debug('lmcache_push', {
    id: attempt.exchange.id,
    transfer: transferId,
    decode: attempt.placed.engine.id,
  })
  return {
    ...copiedFields(json),
    prompt: ids,
    max_tokens: 1,
    ...minTokens,
    stream: false,
    kv_transfer_params: { ret_first_tok: true, disagg_spec: spec },
  }
}

/**
 * Body of the decode leg: one token less than requested, because the first one exists. A chat without a limit gets
 * `null`, which means up to the context's end.
 */
function decodeBody({ attempt, json }: SplitRequest, prompt: readonly number[]): JsonObject {
  const limit = attempt.exchange.protocol.bounds.limit(json)
  const minTokens = typeof json['min_tokens'] === 'number' ? { min_tokens: Math.max(0, json['min_tokens'] - 1) } : {}
  const stream = attempt.exchange.stream
    ? { stream: true, ...(json['stream_options'] === undefined ? {} : { stream_options: json['stream_options'] }) }
    : {}
  return { ...copiedFields(json), prompt, max_tokens: limit === null ? null : limit - 1, ...minTokens, ...stream }
}

/** First token of the prefill response, or why the decode leg cannot start from it. */
function firstTokenOf(answer: JsonObject): FirstToken | 'none' | 'final' | 'partial' {
  const params = answer['kv_transfer_params'] as JsonObject | null | undefined
  const id = params?.['first_tok']
  const choice = Array.isArray(answer['choices']) ? (answer['choices'][0] as JsonObject | undefined) : undefined
  const text = choice?.['text']
  if (!Number.isInteger(id) || typeof text !== 'string') return 'none'
  if (choice?.['finish_reason'] !== 'length') return 'final'
  // Incomplete bytes of a character: only an engine with both tokens can decode them.
  return text === '' || text.includes('\uFFFD') ? 'partial' : { id: id as number, text }
}

/** Asks the bridge whether the cache of every rank has arrived. true without a bridge. */
async function waitForTransfer({ attempt, receiver, transferId }: SplitRequest): Promise<boolean> {
  const { exchange, ports, placed, stages } = attempt
  const { readyUrl, readyMs } = placed.route.pool.split.lmcache
  if (readyUrl === null) return true
  const startedAt = ports.now()
  try {
    const bridge = { id: 'lmcache-bridge', url: readyUrl, headers: [], binding: null }
    const path = `/${encodeURIComponent(transferId)}?ranks=${receiver.initPorts.length}`
    const answer = await ports.origin.send(ownRequest(bridge, path, { limitMs: readyMs, signal: exchange.signal }))
    answer.discard()
    return answer.status === 200
  } catch (error) {
    if (!(error instanceof OriginError) || exchange.signal.aborted) throw error
    ports.log.warn('lmcache_bridge_failed', { id: exchange.id, failure: error.failure, error })
    return false
  } finally {
    stages.add('transfer', ports.now() - startedAt)
  }
}
