/** Embeddings, pooling and classification of texts, ids or chats. */
import type { JsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import { readChat } from './chat-messages.ts'
import { NOTHING_DECODED, ONE_PASS } from './one-pass.ts'
import { chatMedia } from './media-items.ts'
import { readTexts, UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type PromptFields, type Protocol } from './protocol.ts'

/** `input`, or messages for models with a chat template. */
function readInput(body: JsonObject): Prompt {
  if (body['messages'] !== undefined) return readChat(body) ?? UNREADABLE
  return readTexts(body['input'], body['add_special_tokens'] !== false)
}

const endpoint = { ...PLAIN_ENDPOINT, salted: true, unsplittable: NOTHING_DECODED }

const PROMPT_FIELDS: PromptFields = { texts: ['input', 'messages'], ids: ['input'] }

export const embeddings: Protocol = {
  ...ONE_PASS,
  name: 'embeddings',
  operation: 'embeddings',
  endpoints: ['/v1/embeddings', '/classify'].map((path) => ({ ...endpoint, path })),
  promptFields: PROMPT_FIELDS,
  prompt: readInput,
  media: (body) => chatMedia(body['messages']),
}

export const pooling: Protocol = {
  ...ONE_PASS,
  name: 'pooling',
  operation: 'pooling',
  endpoints: [{ ...endpoint, path: '/pooling' }],
  promptFields: PROMPT_FIELDS,
  prompt: readInput,
  media: (body) => chatMedia(body['messages']),
  // With an answer per token, vLLM computes all tokens. The default task of a model is unknown.
  computesAll: ({ task }) => task === 'token_embed' || task === 'token_classify',
}
