/** Recorded exchanges with a real engine: their format, and how to restore their bytes. */
import { formBytes } from './form.ts'
import type { Form } from './form.ts'

/** One request and the engine's response. */
export interface Exchange {
  readonly name: string
  readonly request: RecordedRequest
  readonly response: RecordedResponse
}

export interface RecordedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  /** Besides content-type (application/json with a body) and the engine's key. */
  readonly headers?: Readonly<Record<string, string>>
  /** `none`: sent without the engine's key; `wrong`: with another one. */
  readonly key?: 'none' | 'wrong'
  readonly json?: unknown
  /** A body that is not JSON, or whose bytes matter. */
  readonly text?: string
  /** A form, in order; its bytes are made by `form.ts`. */
  readonly form?: Form
}

/** Exactly one of `json`, `sse` and `text` gives the body; see `bodyText`. */
export interface RecordedResponse {
  readonly status: number
  /** Only those that matter to a client or gateway. */
  readonly headers: Readonly<Record<string, string>>
  readonly json?: unknown
  /** Events of a stream, each ended by one empty line. */
  readonly sse?: readonly string[]
  readonly text?: string
}

export interface VectorFile {
  readonly engine: { readonly name: string; readonly version: string; readonly flags: readonly string[] }
  readonly about: string
  /** Names of the applied rules in `normaliser.ts`, for values that differ between recordings. */
  readonly normalised: readonly string[]
  readonly exchanges: readonly Exchange[]
}

const keptHeaders = new Set([
  'content-type',
  'x-request-id',
  'allow',
  'retry-after',
  'www-authenticate',
  'endpoint-load-metrics',
])

export function keptOf(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => keptHeaders.has(name)))
}

/** Selects the most readable form that restores the same bytes. */
export function encodeBody(text: string, contentType: string): Pick<RecordedResponse, 'json' | 'sse' | 'text'> {
  if (contentType.startsWith('text/event-stream') && text.endsWith('\n\n')) {
    const sse = text.split('\n\n').slice(0, -1)
    if (bodyText({ sse }) === text) return { sse }
  }
  try {
    const json: unknown = JSON.parse(text)
    if (bodyText({ json }) === text) return { json }
  } catch {
    // Not JSON.
  }
  return { text }
}

/** The body as the engine sent it, after normalisation. */
export function bodyText(response: Pick<RecordedResponse, 'json' | 'sse' | 'text'>): string {
  if (response.text !== undefined) return response.text
  if (response.sse !== undefined) return response.sse.map((event) => `${event}\n\n`).join('')
  return JSON.stringify(response.json)
}

/** The request's body as it was sent; null without one. */
export function requestBody(request: RecordedRequest): string | Uint8Array | null {
  return request.form === undefined ? requestText(request) : formBytes(request.form)
}

/** As `requestBody`, for requests without a form. */
export function requestText(request: RecordedRequest): string | null {
  if (request.text !== undefined) return request.text
  return request.json === undefined ? null : JSON.stringify(request.json)
}

/** The JSON values of a stream's `data:` lines; `[DONE]` as the string. */
export function dataOf(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => (line === 'data: [DONE]' ? '[DONE]' : (JSON.parse(line.slice(6)) as unknown)))
}

/** One line for the request and one for the response, for readable diffs. */
export function writeVectors({ exchanges, ...head }: VectorFile): string {
  const rows = exchanges.map(
    ({ name, request, response }) =>
      ` { "name": ${JSON.stringify(name)},\n   "request": ${JSON.stringify(request)},\n   "response": ` +
      `${JSON.stringify(response)} }`,
  )
  const heads = Object.entries(head).map(([key, value]) => ` ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`)
  return `{\n${heads.join('')} "exchanges": [\n${rows.join(',\n')}\n ]\n}\n`
}

/** An object with one line for each entry of its lists. */
export function writeLists(object: Readonly<Record<string, string | readonly object[]>>): string {
  const fields = Object.entries(object).map(([key, value]) =>
    typeof value === 'string'
      ? ` ${JSON.stringify(key)}: ${JSON.stringify(value)}`
      : ` ${JSON.stringify(key)}: [\n${value.map((entry) => `  ${JSON.stringify(entry)}`).join(',\n')}\n ]`,
  )
  return `{\n${fields.join(',\n')}\n}\n`
}
