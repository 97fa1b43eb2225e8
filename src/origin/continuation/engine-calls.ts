/** Calls to an engine that a continuation needs besides the completion itself. */
import { isJsonObject, type JsonObject } from '../../core/json.ts'
import type { EngineRequest } from '../../ports/origin.ts'
import type { Ports } from '../../ports.ts'
import { OriginError } from '../../ports/origin.ts'
import { knownEngines } from '../known-engines.ts'
import { ownRequest } from '../own-request.ts'

/** Limit of a response, bytes. */
const RESPONSE_BYTES = 16 * 1024 * 1024
/**
 * Time limit of one call, ms. The client waits for it in the middle of its stream, but a busy engine may need seconds,
 * and if none answers the stream ends.
 */
const CALL_MS = 10_000

export type CallContext = Pick<EngineRequest, 'target' | 'signal' | 'timers'> & {
  readonly ports: Pick<Ports, 'origin'>
  /** Name under which the engine serves the model. */
  readonly model: string
}

/** Text of these ids, special tokens included. Rejects with an OriginError. */
export async function detokenize(context: CallContext, ids: ArrayLike<number>): Promise<string> {
  if (ids.length === 0) return ''
  const { ports, target, model } = context
  const call = knownEngines(ports.origin).typeOf(target).tokenize?.detokenize ?? null
  if (call === null)
    throw new OriginError('malformed', `engine ${target.id} is of a type that has no text for token ids`)
  const text = call.text(await postJson(context, call.path, call.body(ids, model)))
  if (text !== null) return text
  throw new OriginError('malformed', `engine ${target.id} answered ${call.path} without a text`)
}

/** Longest context of the engine, tokens. Rejects with an OriginError. */
export async function maxModelLen(context: CallContext): Promise<number> {
  const { max_model_len: tokens } = await postJson(
    context,
    '/tokenize',
    JSON.stringify({ model: context.model, prompt: 'a' }),
  )
  if (typeof tokens === 'number') return tokens
  throw new OriginError('malformed', `engine ${context.target.id} answered /tokenize without max_model_len`)
}

/** Calls once more after a lost connection: the engine may have closed one that was idle. */
async function postJson(context: CallContext, path: string, body: string): Promise<JsonObject> {
  try {
    return await postJsonOnce(context, path, body)
  } catch (error) {
    if (!(error instanceof OriginError) || error.failure !== 'reset' || context.signal.aborted) throw error
    return postJsonOnce(context, path, body)
  }
}

async function postJsonOnce(context: CallContext, path: string, body: string): Promise<JsonObject> {
  const { ports, target, signal, timers } = context
  const answer = await ports.origin.send(ownRequest(target, path, { json: body, limitMs: CALL_MS, signal, timers }))
  const bytes = await answer.read(RESPONSE_BYTES)
  if (answer.status !== 200)
    throw new OriginError('status_5xx', `engine ${target.id} answered ${path} with ${answer.status}`)
  const json: unknown = JSON.parse(new TextDecoder().decode(bytes))
  if (isJsonObject(json)) return json
  throw new OriginError('malformed', `engine ${target.id} answered ${path} with no JSON object`)
}
