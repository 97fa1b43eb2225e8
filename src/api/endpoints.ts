import type { PromptEndpoint } from '../core/tokens/prompt-request.ts'
import type { ErrorShape } from './error-response.ts'

/** POST endpoint that is forwarded to engines. Paths outside this table do not exist at the gateway. */
export interface Endpoint {
  readonly path: string
  /** Format of the prompt. */
  readonly prompt: PromptEndpoint
  /** The body is an upload (`multipart/form-data`) instead of JSON. */
  readonly form: boolean
  readonly shape: ErrorShape
  /** The response can be a stream. */
  readonly streams: boolean
  /** The stream has usage only if `stream_options.include_usage` requests it. */
  readonly usageOnRequest: boolean
  /** The engine reads `cache_salt`. */
  readonly salted: boolean
  /** The engine stores the response for later calls. */
  readonly storesResponses: boolean
  /** Why the request cannot be split between prefill and decode engines. null: it can. */
  readonly unsplittable: string | null
}

const base = {
  shape: 'openai',
  form: false,
  streams: false,
  usageOnRequest: false,
  salted: false,
  storesResponses: false,
} as const
const generation = { ...base, streams: true, salted: true } as const
const scoring = { ...base, salted: true, unsplittable: 'nothing is decoded' } as const
const audioInput = {
  ...base,
  prompt: 'audio',
  form: true,
  streams: true,
  unsplittable: 'an upload goes to one engine',
} as const
const mediaOutput = { ...base, prompt: 'other', unsplittable: 'no text is decoded' } as const
const counting = { ...base, unsplittable: 'nothing is computed' } as const

export const endpoints: readonly Endpoint[] = [
  { ...generation, path: '/v1/chat/completions', prompt: 'chat', usageOnRequest: true, unsplittable: null },
  { ...generation, path: '/v1/completions', prompt: 'completions', usageOnRequest: true, unsplittable: null },
  { ...generation, path: '/v1/responses', prompt: 'responses', storesResponses: true, unsplittable: null },
  { ...generation, path: '/v1/messages', prompt: 'messages', shape: 'anthropic', unsplittable: null },
  { ...counting, path: '/v1/messages/count_tokens', prompt: 'messages', shape: 'anthropic' },
  { ...scoring, path: '/v1/embeddings', prompt: 'embeddings' },
  { ...scoring, path: '/pooling', prompt: 'embeddings' },
  { ...scoring, path: '/classify', prompt: 'embeddings' },
  { ...scoring, path: '/rerank', prompt: 'rerank' },
  { ...scoring, path: '/v1/rerank', prompt: 'rerank' },
  { ...scoring, path: '/v2/rerank', prompt: 'rerank' },
  { ...scoring, path: '/score', prompt: 'score' },
  { ...scoring, path: '/v1/score', prompt: 'score' },
  { ...audioInput, path: '/v1/audio/transcriptions' },
  { ...audioInput, path: '/v1/audio/translations' },
  { ...mediaOutput, path: '/v1/audio/speech' },
  { ...mediaOutput, path: '/v1/images/generations' },
  { ...counting, path: '/tokenize', prompt: 'tokenize' },
  { ...counting, path: '/detokenize', prompt: 'other' },
]

const paths: ReadonlySet<string> = new Set(endpoints.map(({ path }) => path))

/** True for the path of an endpoint, without a query. */
export const isInferencePath = (path: string): boolean => paths.has(path)
