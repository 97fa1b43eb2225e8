/** What the raw engine can be told to do, byte by byte. Strings are latin1: one character, one byte. */
export type Step =
  | { readonly send: string }
  /** In writes of `of` bytes, a turn of the loop apart. */
  | { readonly slices: string; readonly of: number }
  /** Chunks of 64 KiB until so many bytes were sent. */
  | { readonly flood: number }
  | { readonly waitMs: number }
  /** Until the test says so. */
  | { readonly gate: true }
  /** Until the other side closes. */
  | { readonly hang: true }
  | { readonly fin: true }
  | { readonly reset: true }
  /** The next request on this connection meets a reset. */
  | { readonly resetNext: true }

export interface RunReport {
  readonly requests: number
  readonly connections: readonly number[]
  /** The last request's head and body, as they came. */
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

/** A whole JSON answer with its length. */
export const json = (body: string, status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${utf8(body).length}\r\n\r\n${utf8(body)}`
