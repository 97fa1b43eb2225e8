/**
 * Rules for headers at a proxy (RFC 9110, section 7.6). Headers are flat lists of name, value; names are lower-case.
 */
import { PRIVATE_HEADERS } from '../engines/engine-registry.ts'
import type { OriginTarget } from '../ports/engine-target.ts'
import { withVia } from './via.ts'

/** Headers of one connection, never forwarded in either direction. */
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

/** Headers that engines do not get: credentials, and headers that only the gateway may set. */
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
  // A browser's origin would make an engine add its own CORS headers.
  'origin',
  'referer',
  // Clients can forge these, and engines do not need the client's address.
  'forwarded',
  'x-forwarded',
  'x-real-ip',
  'x-client-ip',
  'true-client-ip',
  // Some servers obey these, and would use another path, host or method than the gateway has checked.
  'x-original-url',
  'x-original-host',
  'x-rewrite-url',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  // Conditions and ranges: a 304, 206, 412 or 416 is no response to a prompt and would count as a failure of the
  // engine.
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
  // Its data planes, and llm-d's sidecar of a decode engine, send requests where these say.
  'x-gateway-destination-',
  'x-llm-d-',
  'x-prefiller-',
  'x-data-parallel-host-',
  'cf-',
  'sec-',
  'access-control-',
  'proxy-',
]

/**
 * Headers that clients do not get: framing is derived from the bytes that pass; the others are set by the gateway or
 * name the engine's host.
 */
const NOT_FOR_CLIENTS: ReadonlySet<string> = new Set([
  'content-length',
  'date',
  'server',
  'alt-svc',
  'location',
  'content-location',
  'strict-transport-security',
  'via',
  // Engines get no cookies, and cookies of load balancers before them name an engine.
  'set-cookie',
  'x-request-id',
  'request-id',
  'server-timing',
])

/** Adds the names in `connection` to the hop-by-hop set. null if it adds none. */
function namedByConnection(connection: string | null): Set<string> | null {
  if (connection === null || connection === 'keep-alive' || connection === 'close') return null
  let named: Set<string> | null = null
  for (const token of connection.split(',')) {
    const name = token.trim().toLowerCase()
    if (name !== '' && name !== 'close' && name !== 'keep-alive') (named ??= new Set()).add(name)
  }
  return named
}

/** Headers of a request; names are lower-case, values of one name are joined. */
export interface HeaderSource {
  get(name: string): string | null
  forEach(visit: (value: string, name: string) => void): void
}

/** Cache: name → may be forwarded to engines. Clients send the same few names again and again. */
const cachedNames = new Map<string, boolean>()
/** Limit of the cache, because clients choose the names. */
const MAX_CACHED_NAMES = 500

function goesToEngines(name: string): boolean {
  const known = cachedNames.get(name)
  if (known !== undefined) return known
  // CGI and WSGI read `transfer_encoding` as `transfer-encoding`, so the same rule applies to both spellings.
  const dashed = name.replaceAll('_', '-')
  const goes =
    !HOP_BY_HOP.has(dashed) &&
    !NOT_FOR_ENGINES.has(dashed) &&
    // A client could choose the rank, the priority or the transfer of an engine and bypass the ledger.
    !PRIVATE_HEADERS.has(dashed) &&
    !NOT_FOR_ENGINES_PREFIXES.some((prefix) => dashed.startsWith(prefix))
  if (cachedNames.size < MAX_CACHED_NAMES) cachedNames.set(name, goes)
  return goes
}

export interface EngineHeaderRules {
  readonly via: string
  /** Header with the client's token, besides `authorization`. null: none. */
  readonly tokenHeader: string | null
}

/**
 * Headers of the client for an engine: without hop-by-hop headers, credentials, client addresses, conditions,
 * overrides of path or method, and compression (a compressed stream cannot be read). The request id is added, and
 * `via` is appended to the header of that name. The header with the client's token is left out.
 * @param keepsType false: the body was read as JSON, so the engine has to read it as JSON in UTF-8, whatever its client
 *   named it. true: a form, whose type has its boundary, or no body.
 */
export function headersForEngine(
  incoming: HeaderSource,
  requestId: string,
  { via, tokenHeader }: EngineHeaderRules,
  keepsType: boolean,
): string[] {
  const named = namedByConnection(incoming.get('connection'))
  const out: string[] = keepsType ? [] : ['content-type', 'application/json']
  incoming.forEach((value, name) => {
    if (!keepsType && name === 'content-type') return
    if (goesToEngines(name) && name !== tokenHeader && !named?.has(name)) out.push(name, value)
  })
  out.push('accept-encoding', 'identity', 'x-request-id', requestId, 'via', withVia(incoming.get('via'), via))
  return out
}

/** Merges the request's headers with those configured for the engine; the configured ones win. */
export function headersForTarget(request: readonly string[], target: OriginTarget): readonly string[] {
  if (target.headers.length === 0) return request
  const out: string[] = []
  for (let i = 0; i < request.length; i += 2) {
    if (!hasHeader(target.headers, request[i]!)) out.push(request[i]!, request[i + 1]!)
  }
  out.push(...target.headers)
  return out
}

/** Headers of an engine's response without hop-by-hop headers; names are lower-case. */
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

/** Prefix of OpenAI's headers with the limits of a key. */
const RATE_LIMITS = 'x-ratelimit-'

/**
 * Headers of a response for the client: those of the engine, and the gateway's own. Without headers that only the
 * gateway sets, CORS headers (`cors` sets them) and headers that name the engine's host. Rate limits of the gateway
 * replace those of an engine, such as a provider's: clients would read two values as one.
 */
export function headersForClient(answer: readonly string[], own: readonly string[] = []): string[] {
  const isLimited = own.some((name, at) => at % 2 === 0 && name.startsWith(RATE_LIMITS))
  const out: string[] = []
  for (let i = 0; i < answer.length; i += 2) {
    const name = answer[i]!
    if (
      NOT_FOR_CLIENTS.has(name) ||
      HOP_BY_HOP.has(name) ||
      name.startsWith('x-firstlight-') ||
      name.startsWith('access-control-') ||
      (isLimited && name.startsWith(RATE_LIMITS))
    )
      continue
    out.push(name, answer[i + 1]!)
  }
  out.push(...own)
  return out
}

function hasHeader(flat: readonly string[], name: string): boolean {
  for (let i = 0; i < flat.length; i += 2) if (flat[i] === name) return true
  return false
}

/** First value of a header. null without one. */
export function headerOf(flat: readonly string[], name: string): string | null {
  for (let i = 0; i < flat.length; i += 2) if (flat[i] === name) return flat[i + 1]!
  return null
}

/** Whether a content type is that of server-sent events. */
export const isEventStream = (contentType: string | null): boolean =>
  (contentType ?? '').toLowerCase().startsWith('text/event-stream')

/** Whether a content type does not say what the body is: absent, or that of any text. Some servers stream with it. */
export const isUnspecific = (contentType: string | null): boolean =>
  contentType === null || /^text\/plain\b/i.test(contentType)

/** Headers of a stream with its content type, which browsers check. */
export function asEventStream(flat: readonly string[]): readonly string[] {
  if (isEventStream(headerOf(flat, 'content-type'))) return flat
  const others = flat.filter((_, at) => flat[at - (at % 2)] !== 'content-type')
  return [...others, 'content-type', 'text/event-stream; charset=utf-8']
}

/** The body is compressed, so nothing in it can be read. */
export function isEncoded(flat: readonly string[]): boolean {
  const encoding = headerOf(flat, 'content-encoding')
  return encoding !== null && encoding.toLowerCase() !== 'identity'
}

/**
 * Argument for `fetch` and `Response`, which create their own `Headers` from it. workerd reads a record in a third of
 * the time of a list of pairs.
 */
export function headersInit(flat: readonly string[]): Record<string, string> | [string, string][] {
  const record: Record<string, string> = {}
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    // Repeated names and names that every object has (`__proto__`) do not fit into a record.
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
