/** Token ids of a prompt, and back. The engine computes nothing, so there is no usage. */
import type { JsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import { readChat } from './chat-messages.ts'
import { ONE_PASS } from './one-pass.ts'
import { readTexts, UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol, UNCOMPUTED } from './protocol.ts'
import { NO_USAGE } from './reported-usage.ts'

function readQuestion(body: JsonObject): Prompt {
  if (body['messages'] !== undefined) return readChat(body) ?? UNREADABLE
  return readTexts(body['prompt'], body['add_special_tokens'] !== false)
}

export const tokenize: Protocol = {
  ...ONE_PASS,
  name: 'tokenize',
  operation: 'tokenize',
  endpoints: [{ ...PLAIN_ENDPOINT, ...UNCOMPUTED, path: '/tokenize' }],
  promptFields: { texts: ['prompt', 'messages'], ids: ['prompt'] },
  prompt: readQuestion,
  usage: () => NO_USAGE,
}

export const detokenize: Protocol = {
  ...ONE_PASS,
  name: 'detokenize',
  operation: 'detokenize',
  endpoints: [{ ...PLAIN_ENDPOINT, ...UNCOMPUTED, path: '/detokenize' }],
  prompt: () => UNREADABLE,
  usage: () => NO_USAGE,
}
