import type { RequestClass } from '../core/contract/contract.ts'
import type { KeyLimits } from '../core/limits/key-limiter.ts'
import { UNLIMITED } from './key-limits.ts'
import type { Config, KeyConfig } from '../config.ts'
import { Failure } from '../failure.ts'
import { allowedOrigin } from './cors.ts'
import { matchesHost } from '../url.ts'
import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet, type JWTPayload } from 'jose'
import { BoundedMap } from '../core/bounded-map.ts'
import type { Log, Ports } from '../ports.ts'

/** Identity of a client. Without keys all clients are one. */
export interface Caller {
  /** Name of the key: tenant of bookings, label of logs and metrics. */
  readonly tenant: string
  readonly models: readonly string[] | null
  readonly allowOverrides: boolean
  /** May read the region digest. */
  readonly edge: boolean
  readonly cacheSalt: string | null
  /** Priority of all requests of this key at engines, instead of the client's; null: none. */
  readonly priority: number | null
  /** Class under overload. */
  readonly requestClass: RequestClass
  /** Share under overload, relative to other keys. */
  readonly weight: number
  /** Deadline of the first token, ms; null: none. */
  readonly ttftDeadlineMs: number | null
  readonly limits: KeyLimits
}

/** The part of a request's headers that is read here. */
type Fields = Pick<Headers, 'get'>

/** Without keys there are no tenants to separate: clients may choose policy, weights and priority. */
export const ANYONE: Caller = {
  tenant: 'open',
  models: null,
  allowOverrides: true,
  edge: true,
  cacheSalt: null,
  priority: null,
  requestClass: 'standard',
  weight: 1,
  ttftDeadlineMs: null,
  limits: UNLIMITED,
}

const utf8 = new TextEncoder()

/** Computes SHA-256 as 64 lower-case hexadecimal digits. */
export async function sha256(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', utf8.encode(secret))
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

const hashOf = (secret: KeyConfig['secret']): string | Promise<string> =>
  typeof secret === 'string' ? sha256(secret) : secret.sha256

/** Compares in constant time. */
function equal(a: string, b: string): boolean {
  let difference = a.length ^ b.length
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

/**
 * Finds the holder of a secret. Compares all hashes in constant time. A valid secret is cached; the lookup compares a
 * seeded 32-bit hash first, so its timing reveals nothing about the text.
 */
export class KeyStore<Holder> {
  readonly #entries: readonly { readonly secret: KeyConfig['secret']; readonly holder: Holder }[]
  // Created at the first use: no crypto at the start of a Worker, and no promise shared between requests.
  #known: readonly { readonly hash: string; readonly holder: Holder }[] | null = null
  readonly #seen = new Map<string, Holder>()

  constructor(entries: readonly { readonly secret: KeyConfig['secret']; readonly holder: Holder }[]) {
    this.#entries = entries
  }

  async find(secret: string): Promise<Holder | null> {
    const seen = this.#seen.get(secret)
    if (seen !== undefined) return seen
    const hash = await sha256(secret)
    let found: Holder | null = null
    this.#known ??= await Promise.all(
      this.#entries.map(async ({ secret: known, holder }) => ({ hash: await hashOf(known), holder })),
    )
    for (const known of this.#known) if (equal(known.hash, hash)) found = known.holder
    if (found !== null) this.#seen.set(secret, found)
    return found
  }
}

/** Why requests are accepted: by key, because the gateway is open, or because it listens on loopback; or not at all. */
type Trust = 'keys' | 'open' | 'loopback' | 'unconfigured'

type Access = Pick<Config, 'keys' | 'jwt' | 'keyLimits' | 'open' | 'loopback' | 'admin' | 'cors' | 'allowedHosts'>

function trustOf({ keys, jwt, open, loopback }: Pick<Access, 'keys' | 'jwt' | 'open' | 'loopback'>): Trust {
  if (keys !== null || jwt !== null) return 'keys'
  if (open) return 'open'
  return loopback ? 'loopback' : 'unconfigured'
}

/** Authenticates requests. One per gateway. */
export class Authenticator {
  readonly trust: Trust
  readonly #callers: KeyStore<{ readonly caller: Caller; readonly expires: string | null }>
  readonly #tokens: { readonly verifier: TokenVerifier; readonly header: string | null; readonly caller: Caller } | null
  readonly #now: () => number
  readonly #admins: KeyStore<true> | null
  readonly #cors: Config['cors']
  readonly #allowedHosts: readonly string[]

  constructor(config: Access, ports: TokenPorts) {
    const { jwt, keyLimits } = config
    this.trust = trustOf(config)
    this.#cors = config.cors
    this.#allowedHosts = config.allowedHosts
    this.#callers = new KeyStore(
      (config.keys ?? []).map((key) => ({
        secret: key.secret,
        holder: { caller: callerOf(key.name, key, keyLimits), expires: key.expires },
      })),
    )
    this.#now = () => ports.now()
    this.#tokens =
      jwt === null
        ? null
        : {
            verifier: new TokenVerifier(jwt, ports),
            header: jwt.header,
            caller: callerOf('', { ...jwt, edge: false }, keyLimits),
          }
    this.#admins = config.admin === null ? null : new KeyStore([{ secret: config.admin.secret, holder: true }])
  }

  /** `apiKeyHeader`: also accept `x-api-key`, as Anthropic's clients send it. */
  async caller(headers: Fields, apiKeyHeader: boolean): Promise<Caller> {
    if (this.trust === 'unconfigured') {
      throw new Failure(
        'not_configured',
        'This gateway has no keys. Set `keys` in its configuration, or `open: true` to serve everyone who can ' +
          'reach it.',
      )
    }
    if (this.trust !== 'keys') {
      refuseForeignPages(headers, this.#cors)
      if (this.trust === 'loopback') refuseForeignHost(headers, this.#allowedHosts)
      return ANYONE
    }
    const secret = bearer(headers) ?? (apiKeyHeader ? headers.get('x-api-key') : null)
    const token = this.#tokenIn(headers, secret)
    if (this.#tokens !== null && token !== null)
      return { ...this.#tokens.caller, tenant: await this.#tokens.verifier.name(token) }
    if (secret === null || secret === '')
      throw keyFailure('key_missing', 'No API key was given. Send it as `authorization: Bearer <key>`.')
    const found = await this.#callers.find(secret)
    if (found === null)
      throw keyFailure(
        'key_wrong',
        'This API key is not known here. Check the key, or ask the operator of this gateway for one.',
      )
    const { caller, expires } = found
    if (expires !== null && this.#now() >= Date.parse(expires))
      throw keyFailure(
        'key_expired',
        `This API key expired on ${expires}. Ask the operator of this gateway for another.`,
      )
    return caller
  }

  /** The token of the configured header, or the key if it looks like one. null: none. */
  #tokenIn(headers: Fields, secret: string | null): string | null {
    if (this.#tokens === null) return null
    const { header } = this.#tokens
    if (header !== null) return headers.get(header)
    return secret !== null && looksLikeToken(secret) ? secret : null
  }

  /** Without keys on a loopback listener the admin API is open. Otherwise it needs `admin.secret`. */
  async admin(headers: Fields): Promise<void> {
    if (this.#admins === null) {
      if (this.trust !== 'loopback') {
        throw new Failure(
          'not_configured',
          'The admin surface is closed: set admin.secret in the configuration and send it as a bearer token.',
        )
      }
      refuseForeignPages(headers, null)
      refuseForeignHost(headers, this.#allowedHosts)
      return
    }
    const secret = bearer(headers)
    if (secret === null)
      throw keyFailure('key_missing', 'The admin key is missing. Send it as `authorization: Bearer <admin key>`.')
    if ((await this.#admins.find(secret)) === null)
      throw keyFailure('key_wrong', 'This is not the admin key of this gateway.')
  }
}

/** Accepts this secret, and whatever the admin API accepts. null: no such secret. `name`: its key in the document. */
export function keyOrAdmin(
  authenticator: Authenticator,
  secret: string | null,
  name: string,
): (headers: Fields) => Promise<void> {
  const ring = new KeyStore(secret === null ? [] : [{ secret, holder: true }])
  return async (headers) => {
    const shown = bearer(headers)
    if (shown !== null && (await ring.find(shown)) !== null) return
    await authenticator.admin(headers).catch((error: unknown) => {
      if (!(error instanceof Failure && error.reason === 'not_configured')) throw error
      if (secret === null)
        throw new Failure(
          'not_configured',
          `This is closed: set ${name} or admin.secret in the configuration and send it as a bearer token.`,
        )
      throw shown === null
        ? keyFailure('key_missing', `No key was given. Send ${name} as \`authorization: Bearer <key>\`.`)
        : keyFailure('key_wrong', `This is not ${name} of this gateway.`)
    })
  }
}

type Rights = Omit<KeyConfig, 'name' | 'secret' | 'expires'>

const callerOf = (
  name: string,
  { models, allowOverrides, edge, cacheSalt, priority, limits, ...overload }: Rights,
  defaults: Config['keyLimits'],
): Caller => ({
  tenant: name,
  models,
  allowOverrides,
  edge,
  cacheSalt,
  priority,
  requestClass: overload.class,
  weight: overload.weight,
  ttftDeadlineMs: overload.ttftDeadlineMs,
  limits: {
    requestsPerMin: limits?.requestsPerMin ?? defaults?.requestsPerMin ?? null,
    tokensPerMin: limits?.tokensPerMin ?? defaults?.tokensPerMin ?? null,
    tokensPerDay: limits?.tokensPerDay ?? defaults?.tokensPerDay ?? null,
    concurrent: limits?.concurrent ?? defaults?.concurrent ?? null,
  },
})

/** null: no bearer token was sent. */
export function bearer(headers: Fields): string | null {
  const value = headers.get('authorization')
  return value === null ? null : (/^bearer +(\S+) *$/i.exec(value)?.[1] ?? null)
}

function keyFailure(reason: 'key_missing' | 'key_wrong' | 'key_expired', message: string): Failure {
  return new Failure(reason, message, { headers: { 'www-authenticate': 'Bearer' } })
}

/** A gateway without keys must not serve pages of the user's browser. Browsers always send this header. */
function refuseForeignPages(headers: Fields, cors: Config['cors']): void {
  if (headers.get('sec-fetch-site') !== 'cross-site' || allowedOrigin(cors, headers) !== undefined) return
  throw new Failure(
    'forbidden',
    'A page of another site may not use a gateway that runs without keys. Set `keys` in its configuration, or ' +
      'let the page in by `cors`.',
  )
}

const LOOPBACK_HOST = /^(?:localhost|[\w-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** With DNS rebinding, a foreign name resolves to this host and a page has the gateway's origin. */
function refuseForeignHost(headers: Fields, allowed: readonly string[]): void {
  const host = headers.get('host')?.toLowerCase().replace(/:\d+$/, '')
  // Only HTTP/1.0 has no host, and browsers do not use it.
  if (host === undefined || LOOPBACK_HOST.test(host) || allowed.some((one) => matchesHost(host, one))) return
  throw new Failure(
    'forbidden',
    `This gateway has no keys and is served to loopback names only, not to the host '${host.slice(0, 100)}'. ` +
      'Add the host to allowed_hosts, or set keys (for the admin routes admin.secret).',
  )
}

/* Verifies JSON Web Tokens of clients (RFC 7519) against the keys of their issuer (JWKS, RFC 7517). */

type JwtConfig = NonNullable<Config['jwt']>

/** Asymmetric signatures only: a public key must not be usable as the secret of an HMAC. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
/** Age at which the issuer's keys are fetched again, ms. */
const FRESH_MS = 10 * 60_000
/** Least time between two fetches, ms: tokens with unknown keys and failures must not become a flood. */
const PAUSE_MS = 30_000
/** Difference between the clocks of issuer and gateway that is accepted, seconds. */
const CLOCK_TOLERANCE_S = 60
/** Valid tokens that are remembered. */
const MOST_TOKENS = 1_000
/** Longest token, characters. */
const MOST_CHARACTERS = 16 * 1024
/** Longest name, and the characters that logs and metric labels show unchanged. */
const NAME = /^[\x21-\x7e]{1,120}$/

/** True for the compact form of a signed token. */
export const looksLikeToken = (text: string): boolean => /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/.test(text)

interface Known {
  readonly name: string
  readonly expiresAt: number
}

type KeySet = ReturnType<typeof createLocalJWKSet>

interface TokenPorts extends Pick<Ports, 'now'> {
  readonly log: Pick<Log, 'warn'>
  /** Absent: the issuer's keys cannot be fetched. */
  readonly fetchJson?: Ports['fetchJson']
}

/**
 * No promise is shared between requests, because on Workers I/O belongs to one request. Requests that find the issuer's
 * keys too old fetch them themselves.
 */
export class TokenVerifier {
  readonly #config: JwtConfig
  readonly #ports: TokenPorts
  readonly #known = new BoundedMap<string, Known>(MOST_TOKENS)
  #keys: { readonly set: KeySet; readonly fetchedAt: number } | null = null
  #failedAt = -Infinity

  constructor(config: JwtConfig, ports: TokenPorts) {
    this.#config = config
    this.#ports = ports
  }

  /** Name of the token's owner. Throws a Failure: `key_wrong`, or `issuer_unreachable`. */
  async name(token: string): Promise<string> {
    const now = this.#ports.now()
    const known = this.#known.get(token)
    if (known !== undefined && now < known.expiresAt) return known.name
    if (token.length > MOST_CHARACTERS) throw invalid(`it is longer than ${MOST_CHARACTERS} characters`)
    const payload = await this.#verified(token, now)
    const name = this.#nameIn(payload)
    this.#known.set(token, { name, expiresAt: (payload.exp! + CLOCK_TOLERANCE_S) * 1000 })
    return name
  }

  async #verified(token: string, now: number): Promise<JWTPayload> {
    try {
      return await this.#verify(token, await this.#keySet(now, FRESH_MS), now)
    } catch (error) {
      // The issuer may have rotated its keys.
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw failureOf(error)
    }
    try {
      return await this.#verify(token, await this.#keySet(now, PAUSE_MS), now)
    } catch (error) {
      throw failureOf(error)
    }
  }

  async #verify(token: string, keys: KeySet, now: number): Promise<JWTPayload> {
    const { issuer, audience } = this.#config
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(now),
      requiredClaims: ['exp'],
    })
    return payload
  }

  /** The issuer's keys, at most `maxAgeMs` old if they can be fetched. */
  async #keySet(now: number, maxAgeMs: number): Promise<KeySet> {
    const { fetchJson, log } = this.#ports
    const kept = this.#keys
    if (kept !== null && now - kept.fetchedAt < maxAgeMs) return kept.set
    if (fetchJson === undefined || now - this.#failedAt < PAUSE_MS) return kept?.set ?? unreachable(null)
    try {
      const json = await fetchJson(this.#config.jwksUrl)
      const set = createLocalJWKSet(json as JSONWebKeySet)
      this.#keys = { set, fetchedAt: now }
      return set
    } catch (error) {
      this.#failedAt = now
      log.warn('jwks_unreachable', { url: this.#config.jwksUrl, keeps: kept !== null, error })
      return kept?.set ?? unreachable(error)
    }
  }

  #nameIn(payload: JWTPayload): string {
    const { nameClaim } = this.#config
    const name = payload[nameClaim]
    if (typeof name === 'string' && NAME.test(name)) return `jwt:${name}`
    throw invalid(`its claim '${nameClaim}' is missing, or no text of up to 120 visible characters`)
  }
}

function unreachable(cause: unknown): never {
  throw new Failure(
    'issuer_unreachable',
    'The keys of the token issuer could not be fetched, so no token can be verified. Try again shortly.',
    { retryAfterMs: PAUSE_MS, cause },
  )
}

function failureOf(error: unknown): unknown {
  if (error instanceof errors.JWTExpired) return invalid('it has expired')
  if (error instanceof errors.JWTClaimValidationFailed)
    return invalid(`its claim '${error.claim}' is not the one that is required here`)
  if (error instanceof errors.JOSEError) return invalid('its signature or its format is not valid')
  return error
}

const invalid = (why: string): Failure =>
  new Failure('key_wrong', `This token is not accepted: ${why}. Get a new one from its issuer.`, {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  })
