import { type Answer, type Incoming, json } from '../answer.ts'
import { decode, encode } from '../tokenizer.ts'
import type { Body } from './body-fields.ts'
import { readMessages } from './read-messages.ts'
import { renderChat } from './render-chat.ts'
import { modelOf } from './generation.ts'
import { readBody } from './read-body.ts'
import type { Serving } from './serving.ts'
import { invalidBody, missing } from './wire-error.ts'

/** Computes the tokens of rendered `messages`, or of `prompt`. Throws a WireError. */
export function tokensOf(body: Body): Uint32Array {
  if (typeof body['prompt'] === 'string') return encode(body['prompt'])
  if (body['messages'] === undefined) throw missing('prompt', body)
  return renderChat(readMessages(body), {
    addGenerationPrompt: body['add_generation_prompt'] !== false,
    continueFinalMessage: body['continue_final_message'] === true,
    tools: body['tools'],
  }).tokens
}

/** POST /tokenize. */
export function tokenize(serving: Serving, incoming: Incoming): Answer {
  const body = readBody(incoming)
  modelOf(serving, body)
  const tokens = Array.from(tokensOf(body))
  return json(200, {
    count: tokens.length,
    max_model_len: serving.settings.limits.maxModelLen,
    tokens,
    token_strs: body['return_token_strs'] === true ? tokens.map((token) => decode([token], true)) : null,
  })
}

/** POST /detokenize. */
export function detokenize(serving: Serving, incoming: Incoming): Answer {
  const body = readBody(incoming)
  const { tokens } = body
  if (tokens === undefined) throw missing('tokens', body)
  if (!Array.isArray(tokens)) {
    throw invalidBody({ type: 'list_type', loc: 'body.tokens', message: 'Input should be a valid list', input: tokens })
  }
  modelOf(serving, body)
  return json(200, { prompt: decode(tokens as number[], true) })
}
