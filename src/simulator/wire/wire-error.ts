import { json, type Answer } from '../answer.ts'

/** An answer that is an error, in vLLM's words. `code` repeats the status as a number. */
export class WireError extends Error {
  readonly status: number
  readonly type: string
  readonly param: string | null

  constructor(status: number, type: string, message: string, param: string | null = null) {
    super(message)
    this.name = 'WireError'
    this.status = status
    this.type = type
    this.param = param
  }

  /** `anthropic`: the shape of /v1/messages. */
  answer(anthropic = false): Answer {
    if (anthropic) return json(this.status, { type: 'error', error: { type: this.type, message: this.message } })
    return json(this.status, { error: { message: this.message, type: this.type, param: this.param, code: this.status } })
  }
}

export const badRequest = (message: string, param: string | null = null): WireError =>
  new WireError(400, 'BadRequestError', message, param)

/** What pydantic says of a body: one line for each error, as Python prints it. */
export const invalidBody = (param: string, detail: string): WireError =>
  new WireError(400, 'Bad Request', `1 validation error:\n  ${detail}`, param)

export const unknownModel = (model: string, served: readonly string[]): WireError =>
  new WireError(404, 'NotFoundError', `The model \`${model}\` does not exist. Valid aliases: ${served.join(', ')}.`, 'model')

export const busy = (kind: 'requests' | 'tokens'): WireError =>
  new WireError(
    503,
    'Service Unavailable',
    kind === 'requests'
      ? 'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.'
      : 'The engine currently has a large prefill backlog and cannot accept new requests. Please try again later or on a different instance.',
  )

export const internalError = (): WireError => new WireError(500, 'InternalServerError', 'Internal server error')

export const engineDead = (): WireError =>
  new WireError(500, 'InternalServerError', 'EngineCore encountered an issue. See stack trace (above) for the root cause.')

/** FastAPI's own answers have another shape. */
export const noRoute = (): Answer => json(404, { detail: 'Not Found' })
export const wrongMethod = (allow: string): Answer => json(405, { detail: 'Method Not Allowed' }, { allow })
