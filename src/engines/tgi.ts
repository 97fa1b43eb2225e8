/**
 * Hugging Face's Text Generation Inference. Source: huggingface/text-generation-inference db931fc of 2026-01-08
 * (router/src/server.rs, router/src/infer/mod.rs, router/src/validation.rs). Not run. It is in maintenance mode.
 */
import { isJsonObject } from '../core/json.ts'
import { answersBy, type TextRule } from './answer-meaning.ts'
import { PLAIN, VERSION_PATTERN, numberIn, type Capacity, type EngineType } from './engine-type.ts'
import { queueMetrics } from './load-metrics.ts'
import { FULL, PROXY_TEXTS } from './proxy-answers.ts'
import { callForChat, callsForTexts, idsOf } from './tokenize-bodies.ts'

export const TGI_TEXTS: readonly TextRule[] = [
  // `InferError::Overloaded`: `--max-concurrent-requests`.
  { statuses: FULL, pattern: /^Model is overloaded$/, means: 'busy' },
  // `into_openai_event` has status 422 for every error of a stream.
  { statuses: [422], pattern: /^Model is overloaded$/, means: 'busy' },
  // 424: the shards failed. The status says that the client is at fault, and it is not.
  { statuses: [422, 424], pattern: /^Request failed during generation/, means: 'broken' },
  { statuses: [422], pattern: /^Incomplete generation/, means: 'broken' },
  { statuses: [503], pattern: /^unhealthy$/, means: 'broken' },
]

export const TGI_TOO_LONG = [
  /`inputs` tokens \+ `max_new_tokens` must be <= (?<limit>\d+)\./,
  /`inputs` must have less than (?<limit>\d+) tokens\./,
] as const

/** `GET /info`. */
function readInfo(json: unknown): Capacity {
  if (!isJsonObject(json)) return { contextTokens: null, slots: null }
  return { contextTokens: numberIn(json, 'max_total_tokens'), slots: numberIn(json, 'max_concurrent_requests') }
}

/** `/tokenize` returns a list of tokens, `/chat_tokenize` wraps it. */
function readIds(json: unknown): Uint32Array | null {
  const list = isJsonObject(json) ? json['tokenize_response'] : json
  return Array.isArray(list) ? idsOf(list.map((one: unknown) => (isJsonObject(one) ? one['id'] : null))) : null
}

export const tgi: EngineType = {
  ...PLAIN,
  name: 'tgi',
  title: 'TGI',
  detection: {
    metrics: ['tgi_'],
    // `owned_by` is the model id.
    owners: [],
    server: null,
    routes: [{ path: '/info', body: /"router": ?"text-generation-router/ }],
  },
  version: { path: '/info', pattern: VERSION_PATTERN },
  load: {
    paths: ['/metrics'],
    metrics: queueMetrics('tgi_batch_current_size', 'tgi_queue_size'),
    ranksRoute: null,
    enabledBy: null,
  },
  capacity: { path: '/info', read: readInfo },
  answerOf: answersBy({ texts: [...TGI_TEXTS, ...PROXY_TEXTS], tooLong: TGI_TOO_LONG, tooManyRequests: 'busy' }),
  // `model` is an adapter's id or is ignored.
  checksModel: false,
  tokenize: {
    calls: (prompt, model) =>
      callForChat(prompt, '/chat_tokenize', ({ messages, tools }) => ({
        model,
        messages,
        ...(tools === undefined ? {} : { tools }),
      })) ?? callsForTexts(prompt, '/tokenize', (text, special) => ({ inputs: text, add_special_tokens: special })),
    ids: readIds,
    detokenize: null,
  },
}
