/**
 * Parses the head of a plain request: `POST`, HTTP/1.1, a path, a body with a declared length or chunked, every header
 * once. All other requests, valid or not, are left to node:http (RFC 9112, sections 2.2, 5 and 6.3).
 */
import type { HeaderSource } from '../../../origin/headers.ts'
import { readHeadFields } from './head-fields.ts'

export interface Http1RequestHead {
  /** Path and query, as sent. */
  readonly url: string
  readonly headers: HeaderSource
  /** Bytes of the body; null: chunked. */
  readonly length: number | null
  /** The client sends no further request on this connection. */
  readonly close: boolean
}

/** Start of every plain request. */
export const PLAIN_START = 'POST /'

const VERSION = ' HTTP/1.1'

const MAX_HEADERS = 100

const TARGET = /^[\x21-\x7e]+$/

/** Hosts that need no normalization. The adapter normalizes the others, and rejects some. */
const PLAIN_HOST = /^[a-z0-9._-]+(?::(?:[1-5]\d{3,4}|[6-9]\d{3}))?$/

/** Headers that change the body, or what happens before it. */
const NOT_PLAIN: ReadonlySet<string> = new Set(['expect', 'upgrade', 'trailer', 'te', 'http2-settings'])

/** Parses a head without its closing blank line, in Latin-1. null: the request is not plain. */
export function parseRequestHead(text: string): Http1RequestHead | null {
  const at = text.indexOf('\r\n')
  if (at < 0 || !text.startsWith(PLAIN_START) || !text.startsWith(VERSION, at - VERSION.length)) return null
  const url = text.slice(PLAIN_START.length - 1, at - VERSION.length)
  const headers = new RequestHeaders()
  if (!readHeadFields(text, (name, value) => !NOT_PLAIN.has(name) && headers.add(name, value))) return null
  const length = bodyLength(headers)
  const close = closesConnection(headers.get('connection'))
  if (!TARGET.test(url) || length === undefined || close === null || !PLAIN_HOST.test(headers.get('host') ?? ''))
    return null
  return { url, headers, length, close }
}

/** Bytes of the body; null: chunked; undefined: neither or both, which two parsers could read differently. */
function bodyLength(headers: RequestHeaders): number | null | undefined {
  const length = headers.get('content-length')
  const encoding = headers.get('transfer-encoding')
  if (encoding !== null) return length === null && encoding.toLowerCase() === 'chunked' ? null : undefined
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : undefined
}

/** A list: at most 100 fields are searched faster than a map is made. */
class RequestHeaders implements HeaderSource {
  /** Flat: name in lower case, value, in order of arrival. */
  readonly #fields: string[] = []

  /** false: the name is there already, or there are too many. */
  add(name: string, value: string): boolean {
    if (this.get(name) !== null || this.#fields.length >= 2 * MAX_HEADERS) return false
    this.#fields.push(name, value)
    return true
  }

  get(name: string): string | null {
    const fields = this.#fields
    for (let i = 0; i < fields.length; i += 2) if (fields[i] === name) return fields[i + 1]!
    return null
  }

  forEach(visit: (value: string, name: string) => void): void {
    const fields = this.#fields
    for (let i = 0; i < fields.length; i += 2) visit(fields[i + 1]!, fields[i]!)
  }
}

/** Whether the connection closes. null: `connection` names another option. */
function closesConnection(connection: string | null): boolean | null {
  if (connection === null) return false
  const option = connection.toLowerCase()
  return option === 'keep-alive' ? false : option === 'close' ? true : null
}
