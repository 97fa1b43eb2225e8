/**
 * The head of a request in the one form that is read here: `POST`, HTTP/1.1, a path, a body of a declared length or in
 * chunks, every header once. Whatever else HTTP allows, and whatever it forbids, is left to node:http (RFC 9112, 2.2, 5 and 6.3).
 */
import type { HeaderSource } from '../../../origin/headers.ts'
import { readHeadFields } from './header-fields.ts'

export interface Http1RequestHead {
  /** Path and query, as sent. */
  readonly url: string
  readonly headers: HeaderSource
  /** Bytes of the body; null: it is in chunks. */
  readonly length: number | null
  /** The client wants no further request on this connection. */
  readonly close: boolean
}

/** How every plain request begins. */
export const PLAIN_START = 'POST /'
const VERSION = ' HTTP/1.1'
/** More of them is nothing a client of ours sends. */
const MAX_HEADERS = 100
const TARGET = /^[\x21-\x7e]+$/
/** Hosts that mean what they say. Others are judged, and some refused, by the adapter. */
const PLAIN_HOST = /^[a-z0-9._-]+(?::(?:[1-5]\d{3,4}|[6-9]\d{3}))?$/
/** They change what the body is, or what happens before it: not plain. */
const ODD: ReadonlySet<string> = new Set(['expect', 'upgrade', 'trailer', 'te', 'http2-settings'])

/** `text` is the head without its closing blank line, in Latin-1. null: not plain. */
export function plainHead(text: string): Http1RequestHead | null {
  const at = text.indexOf('\r\n')
  if (at < 0 || !text.startsWith(PLAIN_START) || !text.startsWith(VERSION, at - VERSION.length)) return null
  const url = text.slice(PLAIN_START.length - 1, at - VERSION.length)
  const headers = new PlainHeaders()
  if (!readHeadFields(text, (name, value) => !ODD.has(name) && headers.add(name, value))) return null
  const length = lengthOf(headers)
  const close = closeOf(headers.get('connection'))
  if (!TARGET.test(url) || length === undefined || close === null || !PLAIN_HOST.test(headers.get('host') ?? ''))
    return null
  return { url, headers, length, close }
}

/** null: chunks. undefined: neither, or both, which two parsers could read differently. */
function lengthOf(headers: PlainHeaders): number | null | undefined {
  const length = headers.get('content-length')
  const encoding = headers.get('transfer-encoding')
  if (encoding !== null) return length === null && encoding.toLowerCase() === 'chunked' ? null : undefined
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : undefined
}

/** Few enough to look through. */
class PlainHeaders implements HeaderSource {
  /** Flat: name in lower case, value, in the order they came. */
  readonly #fields: string[] = []

  /** false: it is there already, or they are too many. */
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

/** null: it names more than that. */
function closeOf(connection: string | null): boolean | null {
  if (connection === null) return false
  const word = connection.toLowerCase()
  return word === 'keep-alive' ? false : word === 'close' ? true : null
}
