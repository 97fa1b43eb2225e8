/**
 * llama.cpp's `llama-server`. Sources: ggml-org/llama.cpp 00dd081 (tools/server/server-http.cpp, server-models.cpp,
 * server-context.cpp); run in the conformance rows `llama-*`.
 */
import { isJsonObject } from '../core/json.ts'
import { answersBy, type TextRule } from './answer-meaning.ts'
import { PLAIN, numberIn, type Capacity, type EngineType } from './engine-type.ts'
import { queueMetrics } from './load-metrics.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'
import { callsForTexts, idsInTokens, textIn } from './tokenize-bodies.ts'

export const LLAMA_CPP_TEXTS: readonly TextRule[] = [
  // `middleware_server_state`: every route, until the model is loaded.
  { statuses: [503], pattern: /^Loading model$/, means: 'away' },
  // `/slots?fail_on_no_slot=1` only; requests wait in the server instead.
  { statuses: [503], pattern: /^no slot available$/, means: 'busy' },
  // `router_validate_model` and `ensure_model_ready`: a server that loads models by name.
  { statuses: [400, 404], pattern: /^model '(?<name>.+?)' not found$/, means: 'lacks_model' },
  { statuses: [400, 500], pattern: /^model name=(?<name>.+?) (?:is not found|is not running)$/, means: 'lacks_model' },
  { statuses: [500], pattern: /^model name=(?<name>.+?) failed to load$/, means: 'lacks_model' },
  // A server without the flag of the route. A prompt cannot cause it.
  {
    statuses: [400, 500, 501],
    pattern: /^This server does not support (?:\w+ )?(?:embeddings?|reranking|completions|chat|infill|metrics)\b/,
    means: 'lacks_route',
  },
]

export const LLAMA_CPP_TOO_LONG = [
  // Status 500 before autumn 2025 (PR 15780).
  /^request \(\d+ tokens\) exceeds (?:the available )?context size \((?<limit>\d+) tokens\)/,
  /^the request exceeds the available context size/,
  /^input \(\d+ tokens\) is larger than the max context size \((?<limit>\d+) tokens\)/,
] as const

/** `GET /props`. `n_ctx` is that of one slot. */
function readProps(json: unknown): Capacity {
  if (!isJsonObject(json)) return { contextTokens: null, slots: null }
  const settings = json['default_generation_settings']
  return {
    contextTokens: isJsonObject(settings) ? numberIn(settings, 'n_ctx') : null,
    slots: numberIn(json, 'total_slots'),
  }
}

export const llamaCpp: EngineType = {
  ...PLAIN,
  name: 'llama.cpp',
  title: 'llama.cpp',
  detection: { metrics: ['llamacpp:'], owners: ['llamacpp'], server: /^llama\.cpp$/, routes: [] },
  version: { path: '/props', pattern: /"build_info": ?"([\w.+-]{1,40})"/ },
  load: {
    paths: ['/metrics'],
    // The usage ratio was removed from current builds: each slot has a cache of its own.
    metrics: {
      ...queueMetrics('llamacpp:requests_processing', 'llamacpp:requests_deferred', ['llamacpp:kv_cache_usage_ratio']),
      // Calls of `llama_decode`, those of a prefill among them. Tokens are counted at the end of a request.
      work: [
        { metric: 'llamacpp:n_decode_total', grows: 'live' },
        { metric: 'llamacpp:prompt_tokens_total' },
        { metric: 'llamacpp:tokens_predicted_total' },
      ],
    },
    ranksRoute: null,
    enabledBy: '--metrics',
  },
  capacity: { path: '/props', read: readProps },
  answerOf: answersBy({
    texts: [...LLAMA_CPP_TEXTS, ...PROXY_TEXTS],
    tooLong: LLAMA_CPP_TOO_LONG,
    tooManyRequests: 'busy',
  }),
  // A server with one model ignores the name; one with several checks it.
  checksModel: false,
  tokenize: {
    // `/apply-template` would need a second call for chats.
    calls: (prompt) => callsForTexts(prompt, '/tokenize', (text, special) => ({ content: text, add_special: special })),
    ids: idsInTokens,
    detokenize: {
      path: '/detokenize',
      body: (ids) => JSON.stringify({ tokens: Array.from(ids) }),
      text: textIn('content'),
    },
  },
}
