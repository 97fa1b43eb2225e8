/**
 * What an answer of an engine means for routing. One function for a status, and for the first event of a stream. The
 * texts of one type are in the type's file.
 */
import type { AttemptFailure } from '../core/contract/outcome.ts'
import { errorOf, firstEventOf, isErrorDocument, isHtml, type ErrorBody } from './error-body.ts'

/** Largest part of a body, bytes, that a caller needs to read. Messages can be longer than 1 KiB. */
export const ANSWER_PREFIX_BYTES = 16 * 1024

export interface EngineAnswer {
  readonly status: number
  /** Flat list of names and values; names are lower-case. */
  readonly headers: readonly string[]
  /** First part of the body; or data of a stream's first event, if the protocol found an error there. */
  readonly body: string
}

/** What the gateway asked for. */
export interface SentRequest {
  /** Route, without ids and query. */
  readonly path: string
  /** `model` as it was sent. null: the request names no model. */
  readonly model: string | null
  /** Configured adapter that the request is for. Absent: the base model. */
  readonly adapter?: string | null
}

export type AnswerMeaning =
  | { readonly kind: 'ok' }
  /** Another engine may take it. No fault: the circuit stays closed and no retry budget is spent. */
  | {
      readonly kind: 'busy'
      /** What is full: one data-parallel rank, or all ranks of the server. */
      readonly scope: 'server' | 'rank'
      /** `until_healthy`: no requests before the next good health check (it loads, is paused or is retired). */
      readonly lasts: 'moment' | 'until_healthy'
      readonly retryAfterS: number | null
    }
  /** The engine does not have what it should serve, and names it. Its fault. */
  | { readonly kind: 'lacks'; readonly what: 'model' | 'adapter'; readonly name: string }
  /** The server has no such route. Learned per engine and path; next engine; no failure. */
  | { readonly kind: 'lacks_route'; readonly path: string }
  /** The request is at fault: the answer goes to the client. */
  | {
      readonly kind: 'client'
      /** Prompt and output limit exceed this engine's context. Engines with a larger one may succeed. */
      readonly tooLong: { readonly limitTokens: number | null } | null
    }
  | { readonly kind: 'broken'; readonly failure: Extract<AttemptFailure, 'status_5xx' | 'malformed' | 'loop'> }

/** A text with a meaning of its own. First match wins. */
export interface TextRule {
  /** Statuses of the answer, or of the error in a stream. */
  readonly statuses: readonly number[]
  /** Matched against `field`. For `lacks` the group `name` is what is missing. */
  readonly pattern: RegExp
  /** Default: `message`. */
  readonly field?: 'message' | 'code' | 'type'
  readonly means: TextMeaning
}

/** `lacks_*` counts only if the missing name is the one that was sent. */
type TextMeaning = 'busy' | 'busy_rank' | 'away' | 'lacks_model' | 'lacks_adapter' | 'lacks_route' | 'client' | 'broken'

interface AnswerRules {
  readonly texts: readonly TextRule[]
  /** Messages of prompts that exceed the context; the group `limit` is the context in tokens. */
  readonly tooLong: readonly RegExp[]
  /** 429 without a text of its own: the engine is full, or (provider) the client must slow down. */
  readonly tooManyRequests: 'busy' | 'client'
}

const OK: AnswerMeaning = { kind: 'ok' }
const BROKEN: AnswerMeaning = { kind: 'broken', failure: 'status_5xx' }
const MALFORMED: AnswerMeaning = { kind: 'broken', failure: 'malformed' }

/** Creates the function of an engine type. */
export const answersBy =
  (rules: AnswerRules) =>
  (answer: EngineAnswer, sent: SentRequest): AnswerMeaning =>
    meaningOf(rules, answer, sent)

function meaningOf(rules: AnswerRules, answer: EngineAnswer, sent: SentRequest): AnswerMeaning {
  const { status, body } = answer
  if (status >= 200 && status < 300) {
    const found = errorInSuccess(answer)
    return found === null ? OK : found === 'html' ? MALFORMED : meaningOfError(rules, { ...answer, ...found }, sent)
  }
  return meaningOfError(rules, { ...answer, error: errorOf(body) }, sent)
}

/** Error in an answer with status 200: vLLM sends the head before it checks its queue. */
function errorInSuccess({ headers, body }: EngineAnswer): { status: number; error: ErrorBody } | 'html' | null {
  const type = headerIn(headers, 'content-type')
  if (type !== null && !/json|text\//.test(type)) return null
  if (type?.startsWith('text/html') === true || (type === null && isHtml(body))) return 'html'
  const event = firstEventOf(body)
  const document = event === null ? body : event.data
  if (event?.name !== 'error' && !isErrorDocument(document)) return null
  const error = errorOf(document)
  return { status: error.status ?? 500, error }
}

type AnswerWithError = EngineAnswer & { readonly error: ErrorBody }

function meaningOfError(rules: AnswerRules, answer: AnswerWithError, sent: SentRequest): AnswerMeaning {
  const { status, headers, error } = answer
  return (
    meaningOfText(rules.texts, answer, sent) ??
    (isFull(rules, answer) ? busy(headers) : null) ??
    (isRouteMissing(answer) ? { kind: 'lacks_route', path: sent.path } : null) ??
    // 401 and 407 concern the gateway's own key at the engine. A redirect would send the client past the gateway.
    (status < 400 || status === 401 || status === 407 ? MALFORMED : null) ??
    (status < 500 || status === 501 ? { kind: 'client', tooLong: tooLongIn(rules.tooLong, error.message) } : null) ??
    (status === 508 ? { kind: 'broken', failure: 'loop' } : BROKEN)
  )
}

function meaningOfText(
  texts: readonly TextRule[],
  { status, headers, error }: AnswerWithError,
  sent: SentRequest,
): AnswerMeaning | null {
  for (const { statuses, pattern, field = 'message', means } of texts) {
    if (!statuses.includes(status)) continue
    const match = pattern.exec(error[field] ?? '')
    if (match === null) continue
    const meaning = resolved(means, match, { headers, sent })
    if (meaning !== null) return meaning
  }
  return null
}

function resolved(
  means: TextMeaning,
  match: RegExpExecArray,
  { headers, sent }: { readonly headers: readonly string[]; readonly sent: SentRequest },
): AnswerMeaning | null {
  switch (means) {
    case 'busy':
      return busy(headers)
    case 'busy_rank':
      return { ...busy(headers), scope: 'rank' }
    case 'away':
      return { ...busy(headers), lasts: 'until_healthy' }
    case 'lacks_route':
      return { kind: 'lacks_route', path: sent.path }
    case 'client':
      return { kind: 'client', tooLong: null }
    case 'broken':
      return BROKEN
    default:
      return lacking(means, match.groups?.['name'], sent)
  }
}

/** Nothing is lacking if a client could have chosen the name: then the answer is about its request. */
function lacking(
  means: 'lacks_model' | 'lacks_adapter',
  name: string | undefined,
  { model, adapter = null }: SentRequest,
): AnswerMeaning | null {
  if (name === undefined || name === '') return null
  if (adapter !== null && (name === adapter || name === model)) return { kind: 'lacks', what: 'adapter', name: adapter }
  return means === 'lacks_model' && name === model ? { kind: 'lacks', what: 'model', name } : null
}

const busy = (headers: readonly string[]): Extract<AnswerMeaning, { kind: 'busy' }> => ({
  kind: 'busy',
  scope: 'server',
  lasts: 'moment',
  retryAfterS: retryAfterS(headers),
})

/** A full server without a text of its own. 529: Anthropic's and Dynamo's status of an overloaded server. */
function isFull({ tooManyRequests }: AnswerRules, { status, headers }: EngineAnswer): boolean {
  if (status === 529) return true
  if (status === 429) return tooManyRequests === 'busy'
  return (
    status === 503 && (headerIn(headers, 'retry-after') !== null || headerIn(headers, 'x-envoy-overloaded') === 'true')
  )
}

/** Bodies of frameworks for a path without a handler: FastAPI, gin and Go's net/http, axum (empty), llama.cpp. */
const NO_ROUTE =
  /^(?:|not found|method not allowed|404 page not found|405 method not allowed|404 not found|file not found)\.?$/i

/** An error in JSON with another message is about an object that the request names, such as a stored response. */
const isRouteMissing = ({ status, body, error }: AnswerWithError): boolean =>
  status === 405 || (status === 404 && (isHtml(body) || NO_ROUTE.test(error.message.trim())))

function tooLongIn(patterns: readonly RegExp[], message: string): { readonly limitTokens: number | null } | null {
  for (const pattern of patterns) {
    const match = pattern.exec(message)
    if (match === null) continue
    const limit = Number(match.groups?.['limit'])
    return { limitTokens: Number.isInteger(limit) && limit > 0 ? limit : null }
  }
  return null
}

/**
 * When to try again, in seconds: `retry-after-ms` (OpenAI, Azure), else `retry-after` (RFC 9110, section 10.2.3), whose
 * date counts from the answer's own. null: absent or malformed.
 */
function retryAfterS(headers: readonly string[]): number | null {
  const ms = headerIn(headers, 'retry-after-ms')
  if (ms !== null && DURATION.test(ms)) return Number(ms) / 1000
  const text = headerIn(headers, 'retry-after')
  if (text === null) return null
  return DURATION.test(text) ? Number(text) : secondsUntil(text, headerIn(headers, 'date') ?? '')
}

const DURATION = /^\d{1,6}(?:\.\d{1,6})?$/

const MAX_RETRY_AFTER_S = 999_999

/** Seconds between two dates of headers, as `Wed, 21 Oct 2026 07:28:00 GMT`. 0: `until` is past. null: no date. */
function secondsUntil(until: string, now: string): number | null {
  if (!until.endsWith(' GMT') || !now.endsWith(' GMT')) return null
  const seconds = (Date.parse(until) - Date.parse(now)) / 1000
  return Number.isNaN(seconds) ? null : Math.min(MAX_RETRY_AFTER_S, Math.max(0, seconds))
}

function headerIn(flat: readonly string[], name: string): string | null {
  for (let at = 0; at < flat.length; at += 2) if (flat[at] === name) return flat[at + 1] ?? null
  return null
}
