/**
 * The rules for headers at a proxy (RFC 9110, section 7.6). Everywhere headers are flat lists of name, value with
 * lower-case names.
 */
import type { EngineTarget } from '../ports.ts'
import { withVia } from './via.ts'

/** Speak of one connection only: never passed on, in either direction. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])

/** Belong to the client and the gateway: credentials, and what only we may say to an engine. */
const NOT_FOR_ENGINES: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'expect',
  'authorization',
  'cookie',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'accept-encoding',
  'x-request-id',
  'via',
  // A browser's origin would make an engine add its own CORS headers to ours.
  'origin',
  'referer',
  // vLLM obeys it: a client could choose the engine behind the books' back.
  'x-data-parallel-rank',
  // Anyone can write these. Engines have no use for the client's address.
  'forwarded',
  'x-forwarded',
  'x-real-ip',
  'x-client-ip',
  'true-client-ip',
  // Another path, host or method than the gateway has checked, for servers that obey these.
  'x-original-url',
  'x-original-host',
  'x-rewrite-url',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  // Conditions and ranges: a 304, 206, 412 or 416 is no answer to a prompt, and would count as the engine's failure.
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
])
const NOT_FOR_ENGINES_PREFIXES = [
  'x-forwarded-',
  'x-firstlight-',
  // The Gateway API's inference extension reads priority and fairness from it.
  'x-gateway-inference-',
  'cf-',
  'sec-',
  'access-control-',
  'proxy-',
]

/** Framing is derived anew from the bytes that pass; the rest is ours to say, or names the engine's host. */
const NOT_FOR_CLIENTS: ReadonlySet<string> = new Set([
  'content-length',
  'date',
  'server',
  'alt-svc',
  'location',
  'content-location',
  'strict-transport-security',
  'via',
  // No cookie goes to engines, and those of balancers before them name one.
  'set-cookie',
  'x-request-id',
  'server-timing',
])

/** Adds what `connection` names to the hop-by-hop set. null when it names nothing more. */
function namedByConnection(connection: string | null): Set<string> | null {
  if (connection === null || connection === 'keep-alive' || connection === 'close') return null
  let named: Set<string> | null = null
  for (const token of connection.split(',')) {
    const name = token.trim().toLowerCase()
    if (name !== '' && name !== 'close' && name !== 'keep-alive') (named ??= new Set()).add(name)
  }
  return named
}

/** Of a request's headers, what is read here; names in lower case, values of one name joined. */
export interface HeaderSource {
  get(name: string): string | null
  forEach(visit: (value: string, name: string) => void): void
}

/** Names seen → do they go to engines? Clients send the same few again and again. */
const seen = new Map<string, boolean>()
/** Names are the clients' to choose: no more are remembered. */
const SEEN_MAX = 500

function goesToEngines(name: string): boolean {
  const known = seen.get(name)
  if (known !== undefined) return known
  // CGI and WSGI read `transfer_encoding` as `transfer-encoding`: the same rule holds for both spellings.
  const dashed = name.replaceAll('_', '-')
  const goes =
    !HOP_BY_HOP.has(dashed) &&
    !NOT_FOR_ENGINES.has(dashed) &&
    !NOT_FOR_ENGINES_PREFIXES.some((prefix) => dashed.startsWith(prefix))
  if (seen.size < SEEN_MAX) seen.set(name, goes)
  return goes
}

/**
 * The client's headers as an engine may see them: no hop-by-hop header, no credential, no claim about addresses,
 * no condition and no override of path or method, no compression (a compressed stream cannot be watched); the request
 * id added, and `own` behind those the request has passed.
 */
export function headersForEngine(incoming: HeaderSource, requestId: string, own: string): string[] {
  const named = namedByConnection(incoming.get('connection'))
  const out: string[] = []
  incoming.forEach((value, name) => {
    if (goesToEngines(name) && !named?.has(name)) out.push(name, value)
  })
  out.push('accept-encoding', 'identity', 'x-request-id', requestId, 'via', withVia(incoming.get('via'), own))
  return out
}

/** The request's headers with the engine's own on top: what an operator set for an engine wins. */
export function headersForTarget(request: readonly string[], target: EngineTarget): readonly string[] {
  if (target.headers.length === 0) return request
  const out: string[] = []
  for (let i = 0; i < request.length; i += 2) {
    if (!hasHeader(target.headers, request[i]!)) out.push(request[i]!, request[i + 1]!)
  }
  out.push(...target.headers)
  return out
}

/** An engine's answer without what concerns only the connection to it. Names are lowered. */
export function headersOfAnswer(raw: readonly string[]): string[] {
  const flat = raw.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text))
  let connection: string | null = null
  for (let i = 0; i < flat.length; i += 2)
    if (flat[i] === 'connection') connection = connection === null ? flat[i + 1]! : `${connection},${flat[i + 1]!}`
  const named = namedByConnection(connection)
  const out: string[] = []
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    if (HOP_BY_HOP.has(name) || name === 'content-length' || named?.has(name)) continue
    out.push(name, flat[i + 1]!)
  }
  return out
}

/**
 * An engine's answer as a client may see it: nothing that speaks for the gateway, says who may read it (`cors` does)
 * or names the engine's host.
 */
export function headersForClient(answer: readonly string[]): string[] {
  const out: string[] = []
  for (let i = 0; i < answer.length; i += 2) {
    const name = answer[i]!
    if (
      NOT_FOR_CLIENTS.has(name) ||
      HOP_BY_HOP.has(name) ||
      name.startsWith('x-firstlight-') ||
      name.startsWith('access-control-')
    )
      continue
    out.push(name, answer[i + 1]!)
  }
  return out
}

export function hasHeader(flat: readonly string[], name: string): boolean {
  for (let i = 0; i < flat.length; i += 2) if (flat[i] === name) return true
  return false
}

/** The first value of a header; null without one. */
export function headerOf(flat: readonly string[], name: string): string | null {
  for (let i = 0; i < flat.length; i += 2) if (flat[i] === name) return flat[i + 1]!
  return null
}

/**
 * For `fetch` and `Response`, which make `Headers` of their own of it: others made before would only be copied.
 * workerd reads a
 * record in a third of the time that pairs take it.
 */
export function headersInit(flat: readonly string[]): Record<string, string> | [string, string][] {
  const record: Record<string, string> = {}
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    // Said twice, or what every object has (`__proto__`).
    if (name in record) return pairsOf(flat)
    record[name] = flat[i + 1]!
  }
  return record
}

function pairsOf(flat: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i]!, flat[i + 1]!])
  return pairs
}
