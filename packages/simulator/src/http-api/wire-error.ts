import { json, type Answer } from '../answer.ts'

/** An error response in vLLM's format. `code` repeats the status as a number. */
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

  /** `anthropic`: format of /v1/messages, which FastAPI's own validation errors do not use. */
  answer(anthropic = false): Answer {
    const { message, type, param, status } = this
    if (anthropic && type !== 'Bad Request') return json(status, { type: 'error', error: { type, message } })
    return json(status, { error: { message, type, param, code: status } })
  }
}

/** vLLM repeats the parameter, and its value, at the end of the message. */
export function badRequest(message: string, param: string | null = null, value?: string | number): WireError {
  const tail = value === undefined ? '' : `, value=${value}`
  return new WireError(
    400,
    'BadRequestError',
    param === null ? message : `${message} (parameter=${param}${tail})`,
    param,
  )
}

/** One error of pydantic. */
export interface Finding {
  readonly type: string
  /** Path with dots, from `body`. */
  readonly loc: string
  readonly message: string
  readonly input: unknown
  readonly context?: string
  /** Expected value of a `literal_error`. */
  readonly expected?: string
}

/** FastAPI's answer to an invalid body. */
export function invalidBody(...findings: readonly [Finding, ...Finding[]]): WireError {
  const lines = findings.slice(0, 10).map(({ type, loc, message, input, context, expected }) => {
    const extra =
      context !== undefined
        ? `, 'ctx': {'error': ${quoted(context)}}`
        : expected === undefined
          ? ''
          : `, 'ctx': {'expected': ${quoted(expected)}}`
    return `  {'type': '${type}', 'loc': '${loc}', 'msg': ${quoted(message)}, 'input': ${pythonRepr(input)}${extra}}`
  })
  if (findings.length > 10) lines.push(`  ...and ${findings.length - 10} more errors`)
  const count = `${findings.length} validation error${findings.length === 1 ? '' : 's'}`
  return new WireError(400, 'Bad Request', `${count}:\n${lines.join('\n')}`, findings[0].loc)
}

export const missing = (field: string, body: unknown): WireError =>
  invalidBody({ type: 'missing', loc: `body.${field}`, message: 'Field required', input: body })

/** Lists and objects are counted, not printed. */
function pythonRepr(input: unknown): string {
  if (input === null || input === undefined) return "'None'"
  if (Array.isArray(input)) return `'<list of ${input.length} items>'`
  if (typeof input === 'object') return `'<dict of ${Object.keys(input).length} items>'`
  if (typeof input === 'boolean') return input ? 'True' : 'False'
  return typeof input === 'string' ? quoted(input) : String(input)
}

/** A string as Python prints it. */
function quoted(text: string): string {
  if (text.includes("'") && !text.includes('"')) return JSON.stringify(text)
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`
}

export const unknownModel = (model: string, served: readonly string[]): WireError =>
  new WireError(
    404,
    'NotFoundError',
    `The model \`${model}\` does not exist. Valid aliases: ${served.join(', ')}.`,
    'model',
  )

export const busy = (kind: 'requests' | 'tokens'): WireError =>
  new WireError(
    503,
    'Service Unavailable',
    kind === 'requests'
      ? 'The engine is currently busy and cannot accept new requests. Please try again later or on a different ' +
          'instance.'
      : 'The engine currently has a large prefill backlog and cannot accept new requests. Please try again later ' +
          'or on a different instance.',
  )

export const internalError = (): WireError => new WireError(500, 'InternalServerError', 'Internal server error')

export const engineDead = (): WireError =>
  new WireError(
    500,
    'InternalServerError',
    'EngineCore encountered an issue. See stack trace (above) for the root cause.',
  )

/** FastAPI's own error format. */
export const noRoute = (): Answer => json(404, { detail: 'Not Found' })
export const wrongMethod = (allow: string): Answer => json(405, { detail: 'Method Not Allowed' }, { allow })
