/** Verifies JSON Web Tokens of clients (RFC 7519) against the keys of their issuer (JWKS, RFC 7517). */
import { createLocalJWKSet, decodeJwt, errors, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose'
import type { Config } from '../../config.ts'
import { BoundedMap } from '../../core/bounded-map.ts'
import { Failure } from '../../failure.ts'
import type { Ports } from '../../ports.ts'
import type { Log } from '../../ports/log.ts'
import type { ServiceClient } from '../../ports/services.ts'

type JwtConfig = NonNullable<Config['jwt']>

/** Asymmetric signatures only: a public key must not be usable as the secret of an HMAC. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/** Age at which the issuer's keys are fetched again, ms. */
const FRESH_MS = 10 * 60_000

/** Minimum time between two fetches, ms: tokens with unknown keys and failures must not become a flood. */
const PAUSE_MS = 30_000

/** Difference between the clocks of issuer and gateway that is accepted, seconds. */
const CLOCK_TOLERANCE_S = 60

/** Maximum number of cached tokens. */
const MAX_TOKENS = 1_000

/** Longest token, characters. */
const MAX_CHARACTERS = 16 * 1024

/** Longest name, and the characters that logs and metric labels show unchanged. */
const NAME = /^[\x21-\x7e]{1,120}$/

/** True for the compact form of a signed token. */
export const looksLikeToken = (text: string): boolean => /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/.test(text)

interface VerifiedToken {
  readonly name: string
  readonly expiresAt: number
}

type KeySet = ReturnType<typeof createLocalJWKSet>

export interface TokenPorts extends Pick<Ports, 'now'> {
  readonly log: Pick<Log, 'warn'>
  readonly services: Pick<ServiceClient, 'fetchJson'>
}

/**
 * No promise is shared between requests, because on Workers I/O belongs to one request. Requests that find the issuer's
 * keys too old fetch them themselves.
 */
export class TokenVerifier {
  readonly #config: JwtConfig
  readonly #ports: TokenPorts
  readonly #verifiedTokens = new BoundedMap<string, VerifiedToken>(MAX_TOKENS)
  #keys: { readonly set: KeySet; readonly fetchedAt: number } | null = null
  #failedAt = -Infinity

  constructor(config: JwtConfig, ports: TokenPorts) {
    this.#config = config
    this.#ports = ports
  }

  /** The token names another issuer, or none. Nothing of it is verified. */
  isForeign(token: string): boolean {
    try {
      return decodeJwt(token).iss !== this.#config.issuer
    } catch {
      return true
    }
  }

  /** Name of the token's owner. Throws a Failure: `key_wrong`, or `issuer_unreachable`. */
  async name(token: string): Promise<string> {
    const now = this.#ports.now()
    const known = this.#verifiedTokens.get(token)
    if (known !== undefined && now < known.expiresAt) return known.name
    if (token.length > MAX_CHARACTERS) throw invalid(`it is longer than ${MAX_CHARACTERS} characters`)
    const payload = await this.#verifyWithRotation(token, now)
    const name = this.#nameIn(payload)
    this.#verifiedTokens.set(token, { name, expiresAt: (payload.exp! + CLOCK_TOLERANCE_S) * 1000 })
    return name
  }

  async #verifyWithRotation(token: string, now: number): Promise<JWTPayload> {
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
    const { services, log } = this.#ports
    const current = this.#keys
    if (current !== null && now - current.fetchedAt < maxAgeMs) return current.set
    if (now - this.#failedAt < PAUSE_MS) return current?.set ?? unreachable(null)
    try {
      const json = await services.fetchJson(this.#config.jwksUrl)
      const set = createLocalJWKSet(json as JSONWebKeySet)
      this.#keys = { set, fetchedAt: now }
      return set
    } catch (error) {
      this.#failedAt = now
      log.warn('jwks_unreachable', { url: this.#config.jwksUrl, uses_cached_keys: current !== null, error })
      return current?.set ?? unreachable(error)
    }
  }

  #nameIn(payload: JWTPayload): string {
    const { nameClaim } = this.#config
    const name = payload[nameClaim]
    if (typeof name === 'string' && NAME.test(name)) return `jwt:${name}`
    throw invalid(`its claim '${nameClaim}' is missing or is not a string of 1 to 120 visible characters`)
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
    return invalid(`its claim '${error.claim}' does not have the required value`)
  if (error instanceof errors.JOSEError) return invalid('its signature or its format is not valid')
  return error
}

const invalid = (why: string): Failure =>
  new Failure('key_wrong', `Invalid token: ${why}. Get a new one from its issuer.`, {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  })
