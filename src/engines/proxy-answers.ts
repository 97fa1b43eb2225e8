/**
 * Answers of proxies and routers in front of engines. Rules of all engine types, because any of them can be behind one.
 * Everything else that they send is judged by its status: NGINX's 502 and 504, Envoy's "no healthy upstream" and
 * vllm-router's "No available workers" mean that the engine cannot be reached.
 */
import type { TextRule } from './answer-meaning.ts'

/** Statuses of servers that refuse work. */
export const FULL = [429, 503, 529] as const
/** Statuses of servers that do not know a name. */
export const UNKNOWN_NAME = [400, 404] as const

const busy = (pattern: RegExp): TextRule => ({ statuses: FULL, pattern, means: 'busy' })

export const PROXY_TEXTS: readonly TextRule[] = [
  // SGLang's model gateway (SMG 1.13, `--worker-overload-protection`): 503 with `retry-after`.
  { statuses: FULL, pattern: /shed$/, field: 'code', means: 'busy' },
  // Ray Serve, `BackPressureError` in python/ray/serve/exceptions.py.
  busy(/^Request dropped due to backpressure/),
  // Knative queue-proxy (KServe serverless), text/plain.
  busy(/pending request queue full/i),
  // Triton, NeMo-Retriever#1077.
  busy(/exceeds maximum queue size/i),
  // Envoy's circuit breaker. Other reset reasons concern the connection.
  busy(/^upstream connect error or disconnect\/reset before headers\. reset reason: overflow/),
  // Dynamo before 1.3; later versions send 529.
  busy(/all workers busy/i),
  busy(/\boverloaded\b/i),
  // OpenAI's form, as LiteLLM and providers send it: `code` is `model_not_found`.
  {
    statuses: UNKNOWN_NAME,
    pattern: /^The model [`'"](?<name>.+?)[`'"] (?:does not exist|was not found|is not available)/,
    means: 'lacks_model',
  },
  // production-stack, services/request_service.
  { statuses: [404], pattern: /^Model ['"](?<name>.+?)['"] not found\b/, means: 'lacks_model' },
  // Providers: `Invalid URL (POST /v1/x)`, `Unknown request URL: POST /v1/x`.
  { statuses: [404], pattern: /^(?:Invalid URL \(|Unknown request URL)/, means: 'lacks_route' },
]
