/**
 * Parses the head of a plain request: `POST`, HTTP/1.1, a path, a body with a declared length or chunked, every header
 * once. All other requests, valid or not, are left to node:http (RFC 9112, sections 2.2, 5 and 6.3).
 */
import type { HeaderSource } from '../../../origin/headers.ts'

/**
 * Header lines of requests and responses. What two parsers could read differently is rejected (RFC 9112, sections 2.2,
 * 5 and 11.2).
 */

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
// oxlint-disable-next-line no-control-regex -- rejects control bytes
const FORBIDDEN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/

/**
 * Calls `take` for each header of a head, name in lower case. `text` is the head without its closing blank line, in
 * Latin-1. Returns false if the head is malformed or `take` returned false.
 */
export function readHeadFields(text: string, take: (name: string, value: string) => boolean): boolean {
  if (FORBIDDEN.test(text)) return false
  let at = text.indexOf('\r\n')
  while (at >= 0) {
    const from = at + 2
    at = text.indexOf('\r\n', from)
    const line = at < 0 ? text.slice(from) : text.slice(from, at)
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon)).toLowerCase()
    // Not a token: a folded line, or a blank before the colon, which some parsers ignore.
    if (!TOKEN.test(name) || !take(name, valueOf(line, colon + 1))) return false
  }
  return true
}

/** Trims spaces and tabs only (RFC 9110, 5.6.3); `trim` removes more. */
function valueOf(line: string, from: number): string {
  let to = line.length
  while (from < to && isBlank(line.charCodeAt(from))) from++
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--
  return line.slice(from, to)
}

const isBlank = (code: number): boolean => code === 32 || code === 9

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
  const word = connection.toLowerCase()
  return word === 'keep-alive' ? false : word === 'close' ? true : null
}

/*
 * Parses the head of an engine's response. What two parsers could read differently is rejected (RFC 9112, sections 6.3
 * and 11.2).
 */

/** What marks the end of the body. */
export type BodyKind = 'none' | 'length' | 'chunked' | 'close'

export interface ResponseHead {
  readonly status: number
  /** Flat, lower-case, without hop-by-hop headers and content-length. */
  readonly headers: readonly string[]
  readonly kind: BodyKind
  /** Bytes of the body when `kind` is `length`. */
  readonly length: number
  /** The connection cannot serve another request. */
  readonly close: boolean
}

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'proxy-authenticate',
  'proxy-authorization',
])

interface Framing {
  length: number
  chunked: boolean
  close: boolean
  /** Headers that `connection` names: hop-by-hop. */
  named: Set<string> | null
}

/** Parses a head without its closing blank line, in Latin-1. null: the response is rejected. */
export function parseResponseHead(text: string): ResponseHead | null {
  const old = text.startsWith('HTTP/1.0 ')
  if (!old && !text.startsWith('HTTP/1.1 ')) return null
  const status = /^\d{3}(?: |\r|$)/.test(text.slice(9, 13)) ? Number(text.slice(9, 12)) : 0
  if (status < 100) return null
  const framing: Framing = { length: -1, chunked: false, close: old, named: null }
  const headers: string[] = []
  const taken = readHeadFields(text, (name, value) => {
    const verdict = takeFraming(framing, name, value, old)
    if (verdict === 'keep') headers.push(name, value)
    return verdict !== 'refuse'
  })
  if (!taken) return null
  if (framing.chunked && framing.length >= 0) return null
  return { status, headers: withoutNamed(headers, framing.named), ...bodyOf(status, framing) }
}

function takeFraming(framing: Framing, name: string, value: string, old: boolean): 'keep' | 'taken' | 'refuse' {
  if (name === 'content-length') {
    if (!/^\d{1,15}$/.test(value)) return 'refuse'
    if (framing.length >= 0) return 'refuse'
    framing.length = Number(value)
    return 'taken'
  }
  if (name === 'transfer-encoding') {
    if (framing.chunked || old || value.toLowerCase() !== 'chunked') return 'refuse'
    framing.chunked = true
    return 'taken'
  }
  if (name === 'connection') {
    for (const part of value.toLowerCase().split(',')) {
      const token = part.trim()
      if (token === 'close') framing.close = true
      else if (token === 'keep-alive') framing.close = false
      else if (token !== '') (framing.named ??= new Set()).add(token)
    }
    return 'taken'
  }
  return HOP_BY_HOP.has(name) ? 'taken' : 'keep'
}

function withoutNamed(headers: string[], named: ReadonlySet<string> | null): readonly string[] {
  if (named === null) return headers
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) if (!named.has(headers[i]!)) kept.push(headers[i]!, headers[i + 1]!)
  return kept
}

function bodyOf(status: number, framing: Framing): Pick<ResponseHead, 'kind' | 'length' | 'close'> {
  const { length, close } = framing
  if (status < 200 || status === 204 || status === 304) return { kind: 'none', length: 0, close }
  if (framing.chunked) return { kind: 'chunked', length: -1, close }
  if (length >= 0) return { kind: 'length', length, close }
  return { kind: 'close', length: -1, close: true }
}
