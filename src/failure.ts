/** Closed list of failure reasons, and the table of what the client sees for each. The cause is only logged. */

interface FailureShape {
  readonly status: number
  /** OpenAI's `error.type`. */
  readonly type: string
  /** OpenAI's `error.code`. */
  readonly code: string
  /** Whether the same request may succeed later or elsewhere. SDKs obey `x-should-retry`. */
  readonly retry: boolean
}

export const failures = {
  bad_json: { status: 400, type: 'invalid_request_error', code: 'invalid_json', retry: false },
  bad_body: { status: 400, type: 'invalid_request_error', code: 'invalid_body', retry: false },
  bad_value: { status: 400, type: 'invalid_request_error', code: 'invalid_value', retry: false },
  bad_http: { status: 400, type: 'invalid_request_error', code: 'bad_request', retry: false },
  request_timeout: { status: 408, type: 'invalid_request_error', code: 'bad_request', retry: false },
  expectation_unmet: { status: 417, type: 'invalid_request_error', code: 'bad_request', retry: false },
  head_too_large: { status: 431, type: 'invalid_request_error', code: 'bad_request', retry: false },
  transfer_encoding: {
    status: 501,
    type: 'invalid_request_error',
    code: 'unsupported_transfer_encoding',
    retry: false,
  },
  model_missing: { status: 400, type: 'invalid_request_error', code: 'missing_model', retry: false },
  model_unknown: { status: 404, type: 'invalid_request_error', code: 'model_not_found', retry: false },
  key_missing: { status: 401, type: 'authentication_error', code: 'missing_api_key', retry: false },
  key_expired: { status: 401, type: 'authentication_error', code: 'expired_api_key', retry: false },
  key_wrong: { status: 401, type: 'authentication_error', code: 'invalid_api_key', retry: false },
  forbidden: { status: 403, type: 'permission_error', code: 'forbidden', retry: false },
  route_unknown: { status: 404, type: 'invalid_request_error', code: 'unknown_url', retry: false },
  method_not_allowed: { status: 405, type: 'invalid_request_error', code: 'method_not_allowed', retry: false },
  websocket: { status: 426, type: 'invalid_request_error', code: 'websocket_unsupported', retry: false },
  body_too_large: { status: 413, type: 'invalid_request_error', code: 'body_too_large', retry: false },
  unsupported_media: { status: 415, type: 'invalid_request_error', code: 'unsupported_media_type', retry: false },
  not_found: { status: 404, type: 'invalid_request_error', code: 'not_found', retry: false },
  rate_limited: { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', retry: true },
  /** A repetition would fail until the budget starts again. */
  budget_spent: { status: 429, type: 'insufficient_quota', code: 'budget_spent', retry: false },
  not_configured: { status: 503, type: 'server_error', code: 'not_configured', retry: false },
  no_engine: { status: 503, type: 'server_error', code: 'no_engine_available', retry: true },
  model_not_loaded: { status: 503, type: 'server_error', code: 'model_not_loaded', retry: true },
  retry_budget: { status: 503, type: 'server_error', code: 'retry_budget_exhausted', retry: true },
  overloaded: { status: 429, type: 'rate_limit_error', code: 'overloaded', retry: true },
  /** A repetition with the same deadline would fail as well. */
  deadline_unmet: { status: 429, type: 'rate_limit_error', code: 'deadline_unmet', retry: false },
  engines_full: { status: 429, type: 'rate_limit_error', code: 'engines_full', retry: true },
  buffers_full: { status: 503, type: 'server_error', code: 'request_buffers_full', retry: true },
  gateway_limit: { status: 503, type: 'server_error', code: 'gateway_limit_reached', retry: true },
  connections_full: { status: 503, type: 'server_error', code: 'connections_full', retry: true },
  write_timeout: { status: 408, type: 'invalid_request_error', code: 'write_timeout', retry: true },
  role_empty: { status: 503, type: 'server_error', code: 'role_empty', retry: true },
  loop: { status: 508, type: 'server_error', code: 'loop_detected', retry: false },
  issuer_unreachable: { status: 503, type: 'server_error', code: 'token_issuer_unreachable', retry: true },
  state_unreachable: { status: 503, type: 'server_error', code: 'state_unreachable', retry: true },
  draining: { status: 503, type: 'server_error', code: 'draining', retry: true },
  engine_unreachable: { status: 502, type: 'server_error', code: 'engine_unreachable', retry: true },
  engine_timeout: { status: 504, type: 'server_error', code: 'engine_timeout', retry: true },
  /** A repetition would take as long. */
  answer_timeout: { status: 504, type: 'server_error', code: 'answer_timeout', retry: false },
  engine_truncated: { status: 502, type: 'server_error', code: 'engine_stream_truncated', retry: true },
  client_gone: { status: 499, type: 'invalid_request_error', code: 'client_closed_request', retry: false },
  internal: { status: 500, type: 'server_error', code: 'internal_error', retry: true },
} as const satisfies Record<string, FailureShape>

export type FailureReason = keyof typeof failures

interface FailureOptions {
  /** The invalid field, as OpenAI's `error.param`. */
  readonly param?: string | null
  readonly retryAfterMs?: number | null
  /** Only for the log. */
  readonly cause?: unknown
  /** Response headers of the failure, such as `allow`. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Failure with a message that clients may see. */
export class Failure extends Error {
  readonly reason: FailureReason
  readonly param: string | null
  readonly retryAfterMs: number | null
  readonly headers: Readonly<Record<string, string>>

  constructor(reason: FailureReason, message: string, options: FailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Failure'
    this.reason = reason
    this.param = options.param ?? null
    this.retryAfterMs = options.retryAfterMs ?? null
    this.headers = options.headers ?? {}
  }

  get shape(): FailureShape {
    return failures[this.reason]
  }
}

/** Minimum Retry-After of a gateway that shuts down, ms. */
const DRAIN_RETRY_MS = 1_000

/**
 * Failure of a request that a gateway cannot serve because it shuts down. `chance` in [0, 1) spreads the retries, so
 * that the clients of one gateway do not return together.
 */
export const drainFailure = (chance: number): Failure =>
  new Failure('draining', 'This gateway is shutting down. Retry the request; another instance will serve it.', {
    retryAfterMs: DRAIN_RETRY_MS * (1 + chance),
  })
