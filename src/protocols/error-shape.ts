/** Errors that the gateway writes in the form of a protocol, as body and as event of a stream; and its request ids. */

/** A failure as the client may see it. `Failure` in failure.ts has these fields. */
export interface GatewayError {
  readonly status: number
  /** OpenAI's `error.type`. */
  readonly type: string
  /** OpenAI's `error.code`. */
  readonly code: string
  /** The invalid field. */
  readonly param: string | null
  readonly message: string
}

export interface ErrorShape {
  /** Headers of responses in which clients look for the id of a request. */
  readonly requestIdHeaders: readonly string[]
  /** Body of an error response. */
  body(error: GatewayError, requestId: string): unknown
  /**
   * The event that ends a broken stream.
   * @param sequence number of the event (`StreamReader.nextSequence`); null: the protocol has none
   */
  event(error: GatewayError, sequence: number | null): string
}

export const openaiErrors: ErrorShape = {
  requestIdHeaders: ['x-request-id'],
  body: openaiBody,
  event: (error) => `data: ${JSON.stringify(openaiBody(error))}\n\n`,
}

function openaiBody({ message, type, param, code }: GatewayError): object {
  return { error: { message, type, param, code } }
}

/**
 * Errors of `/v1/responses`: the body is OpenAI's. The event is numbered and has the fields twice: flat, as OpenAI
 * documents it, and as an object, as OpenAI sends it. `@ai-sdk/openai` 2.0.0 reads the first only, 3.0.0 the second.
 */
export const responsesErrors: ErrorShape = {
  ...openaiErrors,
  event({ message, type, param, code }, sequence) {
    const error = { type, code, message, param }
    const data = { type: 'error', code, message, param, sequence_number: sequence ?? 0, error }
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`
  },
}

/** Anthropic's `error.type` by status; see https://docs.anthropic.com/en/api/errors. */
const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  503: 'overloaded_error',
}

export const anthropicErrors: ErrorShape = {
  // Anthropic's SDKs and Claude Code's transcripts have the second.
  requestIdHeaders: ['x-request-id', 'request-id'],
  body({ status, message }, requestId) {
    const type = anthropicType(status)
    return { type: 'error', error: { type, message }, request_id: requestId }
  },
  event({ status, message }) {
    const error = { type: anthropicType(status), message }
    return `event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`
  },
}

const anthropicType = (status: number): string => ANTHROPIC_TYPES[status] ?? 'api_error'
