/**
 * Parses the head of an engine's response. What two parsers could read differently is rejected (RFC 9112, sections 6.3
 * and 11.2).
 */
import { readHeadFields } from './head-fields.ts'

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

/** The head that was parsed last. Engines of one type send the same head while its `date` is the same. */
let lastText = ''
let lastHead: ResponseHead | null = null

/** Parses a head without its closing blank line, in Latin-1. null: the response is rejected. */
export function parseResponseHead(text: string): ResponseHead | null {
  if (text !== lastText) {
    lastHead = parsed(text)
    lastText = text
  }
  return lastHead
}

function parsed(text: string): ResponseHead | null {
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
  const { kind, length, close } = bodyOf(status, framing)
  return { status, headers: withoutNamed(headers, framing.named), kind, length, close }
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
