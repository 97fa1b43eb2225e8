/**
 * LMCache's prefill/decode protocol (`disagg_proxy_server.py`, production-stack#890): the prefill engine pushes its KV cache
 * to the decode engine that the request names, and its first token is part of the answer. Both legs are completions of ids.
 */
import type { LmcacheReceiver } from '../../config.ts'
import { OriginError, type EngineTarget } from '../../ports.ts'
import type { Deal } from '../attempt-failed.ts'
import { joined } from '../bytes.ts'
import { mayBeMisread } from '../misread.ts'
import { changeOf } from './first-token.ts'
import { wholeLeg, type HandOver } from './last-leg.ts'
import { askLeg, type LegEnd } from './leg.ts'
import { carriedFields, tokenLimit } from './lmcache-fields.ts'

type Json = Readonly<Record<string, unknown>>

interface Split {
  readonly deal: Deal
  readonly prefill: EngineTarget
  readonly receiver: LmcacheReceiver
  /** The client's body with the door's edits: the engines' model name, the tenant's salt. */
  readonly json: Json
  /** Names this hand-over, and no other attempt's. */
  readonly transferId: string
}

interface FirstToken {
  readonly id: number
  readonly text: string
}

const COMPLETIONS = '/v1/completions'
const encoder = new TextEncoder()

export async function lmcacheLeg(deal: Deal, prefill: EngineTarget): Promise<HandOver> {
  const { exchange, ports, placed, stages } = deal
  const receiver = placed.route.pool.split.lmcache.receivers[placed.engine.id]
  if (receiver === undefined) throw new Error(`no lmcache receiver is configured for ${placed.engine.id}`)
  const json = edited(deal)
  // V8 may misread a name here that it read right at the door (`readJson`). Without it a leg had another model or no salt; the bytes are right.
  if (mayBeMisread(json)) return { last: wholeLeg(deal, ['handover=misread']) }
  const split: Split = { deal, prefill, receiver, json, transferId: ports.newId() }
  const startedAt = ports.now()
  const ids = await promptIds(split)
  if (!Array.isArray(ids)) return ids as HandOver
  const leg = await askLeg(deal, { target: prefill, path: COMPLETIONS, body: bodyOf(prefillBody(split, ids)), limitMs: placed.route.pool.limits.prefillMs })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const first = firstTokenOf(leg.answer.json)
  // The cache is there: the decode engine says the same by itself.
  if (typeof first === 'string') return { last: wholeLeg(deal, [`handover=${first}`]) }
  if (!(await arrived(split))) return { last: wholeLeg(deal, ['handover=late']) }
  const body = bodyOf(decodeBody(split, [...ids, first.id]))
  return { last: { target: placed.engine, path: COMPLETIONS, body, notes: [], change: changeOf(exchange.path, first.text) } }
}

function edited({ exchange, placed }: Deal): Json {
  const pieces = exchange.body(placed.route)!
  let size = 0
  for (const piece of pieces) size += piece.length
  return JSON.parse(new TextDecoder().decode(joined(pieces, size))) as Json
}

const bodyOf = (json: Json): readonly Uint8Array[] => [encoder.encode(JSON.stringify(json))]

/** Ids of the prompt, from the client or by the prefill engine's own template. */
async function promptIds({ deal, prefill, json }: Split): Promise<readonly number[] | Exclude<LegEnd, { answer: unknown }>> {
  // One prompt may stand in a list of its own.
  const { prompt: given } = json
  const prompt: unknown = Array.isArray(given) && typeof given[0] !== 'number' ? given[0] : given
  if (Array.isArray(prompt)) return prompt as number[]
  const { model, messages, add_special_tokens, add_generation_prompt, continue_final_message, chat_template, chat_template_kwargs } = json
  const chat = { messages, add_generation_prompt, continue_final_message, chat_template, chat_template_kwargs }
  const question = { model, add_special_tokens, ...(deal.exchange.path.startsWith(COMPLETIONS) ? { prompt } : chat) }
  const { limits } = deal.placed.route.pool
  const leg = await askLeg(deal, { target: prefill, path: '/tokenize', body: bodyOf(question), limitMs: limits.prefillMs })
  if (!('answer' in leg)) return leg
  const { tokens } = leg.answer.json
  if (Array.isArray(tokens) && tokens.every((id) => Number.isInteger(id))) return tokens as number[]
  return { failed: { engine: prefill, failure: 'malformed', status: 200 } }
}

function prefillBody({ deal, receiver, json, transferId }: Split, ids: readonly number[]): Json {
  // The first token is the client's, so the wish that it be no end of sequence holds for it.
  const least = typeof json['min_tokens'] === 'number' && json['min_tokens'] > 0 ? { min_tokens: 1 } : {}
  const spec = { req_id: transferId, receiver_host: receiver.host, receiver_init_port: receiver.initPorts, receiver_alloc_port: receiver.allocPorts }
  deal.ports.log.debug('lmcache_push', { id: deal.exchange.id, transfer: transferId, decode: deal.placed.engine.id })
  return { ...carriedFields(json), prompt: ids, max_tokens: 1, ...least, stream: false, kv_transfer_params: { ret_first_tok: true, disagg_spec: spec } }
}

/** One token less than the client asked for: that one is made. `null` says what absence says of a chat: up to the context's end. */
function decodeBody({ deal, json }: Split, prompt: readonly number[]): Json {
  const limit = tokenLimit(deal.exchange.path, json)
  const least = typeof json['min_tokens'] === 'number' ? { min_tokens: Math.max(0, json['min_tokens'] - 1) } : {}
  const stream = deal.exchange.stream ? { stream: true, ...(json['stream_options'] === undefined ? {} : { stream_options: json['stream_options'] }) } : {}
  return { ...carriedFields(json), prompt, max_tokens: limit === null ? null : limit - 1, ...least, ...stream }
}

/** Why there is none to go on from, in a word, where there is none. */
function firstTokenOf(answer: Json): FirstToken | 'none' | 'final' | 'partial' {
  const params = answer['kv_transfer_params'] as Json | null | undefined
  const id = params?.['first_tok']
  const choice = Array.isArray(answer['choices']) ? (answer['choices'][0] as Json | undefined) : undefined
  const text = choice?.['text']
  if (!Number.isInteger(id) || typeof text !== 'string') return 'none'
  if (choice?.['finish_reason'] !== 'length') return 'final'
  // Bytes of a character whose rest is in the next token: only one engine that has both can print it.
  return text === '' || text.includes('\uFFFD') ? 'partial' : { id: id as number, text }
}

/** Asks the bridge whether every rank's cache is there; true without a bridge. */
async function arrived({ deal, receiver, transferId }: Split): Promise<boolean> {
  const { exchange, ports, placed, stages } = deal
  const { readyUrl, readyMs } = placed.route.pool.split.lmcache
  if (readyUrl === null) return true
  const startedAt = ports.now()
  try {
    const answer = await ports.origin.send({
      target: { id: 'lmcache-bridge', url: readyUrl, headers: [], binding: null },
      method: 'GET',
      path: `/${encodeURIComponent(transferId)}?ranks=${receiver.initPorts.length}`,
      headers: ['accept', 'application/json'],
      body: null,
      connectMs: readyMs,
      firstByteMs: readyMs,
      signal: exchange.signal,
    })
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
