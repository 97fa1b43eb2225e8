/** Script of the raw engine, byte by byte. Strings are latin1: one character, one byte. */
export type Step =
  | { readonly send: string }
  /** Sent in writes of `of` bytes, one turn of the event loop apart. */
  | { readonly slices: string; readonly of: number }
  /** Sends chunks of 64 KiB up to this many bytes. */
  | { readonly flood: number }
  | { readonly waitMs: number }
  /** Waits until the test opens this gate; they open in order. */
  | { readonly gate: true }
  /** Waits until the other side closes. */
  | { readonly hang: true }
  | { readonly fin: true }
  | { readonly reset: true }
  /** Resets the connection at its next request. */
  | { readonly resetNext: true }

export interface RunReport {
  readonly requests: number
  readonly connections: readonly number[]
  /** Head and body of the last request, as received. */
  readonly head: string
  readonly body: string
  readonly sentBytes: number
  readonly closed: boolean
}

/** Text as UTF-8 bytes in a latin1 string. */
export const utf8 = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text))

export const chunk = (payload: string): string => `${payload.length.toString(16)}\r\n${payload}\r\n`
export const LAST_CHUNK = '0\r\n\r\n'
export const SSE_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n'

export const token = (text: string): string =>
  utf8(`data: {"id":"c-1","choices":[{"index":0,"delta":{"content":${JSON.stringify(text)}}}]}\n\n`)
export const USAGE_EVENT =
  'data: {"id":"c-1","choices":[],"usage":{"prompt_tokens":15,"total_tokens":18,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
export const DONE_EVENT = 'data: [DONE]\n\n'

/** A whole JSON response with its length. */
export const json = (body: string, status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${utf8(body).length}\r\n\r\n${utf8(body)}`
