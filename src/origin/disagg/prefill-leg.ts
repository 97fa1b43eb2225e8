/**
 * Runs the prefill leg, then gives the client's request the parameters that the prefill engine returned (connectors
 * `nixl` and `response`).
 */
import type { JsonObject } from '../../core/json.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AttemptContext } from '../attempt-context.ts'
import type { BodyEdit } from '../exchange.ts'
import { callLeg, type LegAnswer } from './call-leg.ts'
import type { LegResult } from './final-leg.ts'
import { decodeParams, REMOTE_DECODE_PARAMS } from './nixl.ts'

/** Limits of the response length on each endpoint. The default of an absent one may be large. */
const LIMIT_FIELDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/** Fields that cost time or contradict a single token, and do not change the prompt. */
const REMOVED_FIELDS = [
  'stream_options',
  'min_tokens',
  'min_completion_tokens',
  'thinking_token_budget',
  'return_token_ids',
  // One of these without the others is a 400.
  'logprobs',
  'top_logprobs',
  'prompt_logprobs',
  'logprob_token_ids',
] as const

/**
 * Edit of the prefill leg: one token, no stream, no delay. Everything that forms the prompt (messages, tools, template
 * arguments, salt) stays, so that the decode engine gets the same blocks.
 * @testing
 */
export function prefillEdit(path: string, json: JsonObject, params: Readonly<Record<string, string>>): BodyEdit {
  const responses = path.startsWith('/v1/responses')
  const limit = responses ? 'max_output_tokens' : 'max_tokens'
  const set: Record<string, string> = { ...params }
  for (const name of LIMIT_FIELDS) if (name === limit || Object.hasOwn(json, name)) set[name] = '1'
  if (json['stream'] !== undefined && json['stream'] !== false) set['stream'] = 'false'
  // Only the response of the decode leg is stored.
  if (responses) set['store'] = 'false'
  return { set, remove: REMOVED_FIELDS }
}

export async function prefillLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, ports, placed, stages } = attempt
  const { split, limits } = placed.route.pool
  const startedAt = ports.now()
  const params: Record<string, string> = split.connector === 'nixl' ? { kv_transfer_params: REMOTE_DECODE_PARAMS } : {}
  const body = exchange.body(placed.route, prefillEdit(exchange.path, exchange.json ?? {}, params))!
  const leg = await callLeg(attempt, { target: prefill, path: exchange.path, body, limitMs: limits.prefillMs })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const set = decodeFields(leg.answer, attempt, prefill)
  const notes = Object.keys(set).length > 0 ? [] : ['handover=none']
  if (notes.length > 0)
    ports.log.warn('kv_transfer_missing', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: prefill.id,
      path: exchange.path,
    })
  const last = {
    target: placed.engine,
    path: exchange.path,
    body: exchange.body(placed.route, { set, remove: [] }),
    notes,
    transform: null,
  }
  return { last: notes.length > 0 ? last : { ...last, holder: prefill } }
}

/** Fields that the decode leg has in addition to the client's request. */
function decodeFields({ json }: LegAnswer, { placed }: AttemptContext, prefill: EngineTarget): Record<string, string> {
  const { split } = placed.route.pool
  const params = decodeParams(json, prefill, placed.engine)
  return {
    ...(params === null ? {} : { kv_transfer_params: params }),
    ...(split.connector === 'response' ? { [split.responseField]: JSON.stringify(json) } : {}),
  }
}
