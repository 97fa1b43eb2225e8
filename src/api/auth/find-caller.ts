/** Ways to find the client of a request. A gateway has one of them, composed of what it has configured. */
import type { Config, KeySecret } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { bearer, type HeaderReader, keyFailure } from './bearer.ts'
import { refuseForeignHost, refuseForeignPages } from './browser-guard.ts'
import { ANYONE, type Caller } from './caller.ts'
import type { KeyStore } from './key-store.ts'
import { looksLikeToken, type TokenVerifier } from './token-verifier.ts'

/**
 * Returns the client of a request, or fails with a Failure.
 * @param acceptsApiKeyHeader also accept `x-api-key`, as Anthropic's clients send it
 */
export type FindCaller = (headers: HeaderReader, acceptsApiKeyHeader: boolean) => Promise<Caller>

/** As `FindCaller`, of a gateway without keys. */
export type FindOpenCaller = (headers: HeaderReader) => Caller

/** The gateway has no keys, and serves others than its own host. */
export const noCaller: FindOpenCaller = () => {
  throw new Failure(
    'not_configured',
    'This gateway has no keys. Set `keys` in its configuration, or `open: true` to serve everyone who can ' +
      'reach it.',
  )
}

/** Everyone who can reach an open gateway, except for pages of other sites. */
export const openCaller =
  (cors: Config['cors']): FindOpenCaller =>
  (headers) => {
    refuseForeignPages(headers, cors)
    return ANYONE
  }

/** Every program of this host. */
export const loopbackCaller =
  (cors: Config['cors'], allowedHosts: readonly string[]): FindOpenCaller =>
  (headers) => {
    refuseForeignPages(headers, cors)
    refuseForeignHost(headers, allowedHosts)
    return ANYONE
  }

/**
 * Keys that a request names, in the order in which they are tried. Clients of Anthropic send both headers if both are
 * configured: one has the key of this gateway, the other their own account's.
 */
const secretsIn = (headers: HeaderReader, acceptsApiKeyHeader: boolean): readonly string[] =>
  [bearer(headers), acceptsApiKeyHeader ? headers.get('x-api-key') : null].filter(
    (secret): secret is string => secret !== null && secret !== '',
  )

/** Finds the holder of a key, and when the key is valid. */
export type KeyHolders = Pick<KeyStore<{ readonly caller: Caller } & Pick<KeySecret, 'from' | 'expires'>>, 'find'>

/** The holder of a key, while the key is valid. */
export const callerByKey =
  (holders: KeyHolders, now: () => number): FindCaller =>
  async (headers, acceptsApiKeyHeader) => {
    const [secret, other] = secretsIn(headers, acceptsApiKeyHeader)
    if (secret === undefined)
      throw keyFailure('key_missing', 'No API key was given. Send it as `authorization: Bearer <key>`.')
    const found = (await holders.find(secret)) ?? (other === undefined ? null : await holders.find(other))
    if (found === null)
      throw keyFailure('key_wrong', 'Invalid API key. Check the key, or ask the operator of this gateway for one.')
    const { caller, from, expires } = found
    if (from !== null && now() < Date.parse(from))
      throw keyFailure('key_wrong', `This API key is accepted from ${from} on. Until then send the previous one.`)
    if (expires !== null && now() >= Date.parse(expires))
      throw keyFailure(
        'key_expired',
        `This API key expired on ${expires}. Ask the operator of this gateway for another.`,
      )
    return caller
  }

interface TokenAccess {
  readonly verifier: Pick<TokenVerifier, 'name' | 'isForeign'>
  /** Header of the token. null: `authorization`, if its bearer looks like a token. */
  readonly header: string | null
  /** Rights of all owners of tokens. */
  readonly caller: Caller
}

/** The owner of a token. Requests without a token need a key. */
export const callerByToken =
  (next: FindCaller, { verifier, header, caller }: TokenAccess): FindCaller =>
  async (headers, acceptsApiKeyHeader) => {
    const token = header === null ? tokenIn(secretsIn(headers, acceptsApiKeyHeader), verifier) : headers.get(header)
    return token === null ? next(headers, acceptsApiKeyHeader) : { ...caller, tenant: await verifier.name(token) }
  }

/**
 * The bearer, if it is a token. null: a key is needed. Beside an `x-api-key`, a token of another issuer is meant for
 * another server.
 */
function tokenIn([secret, key]: readonly string[], verifier: TokenAccess['verifier']): string | null {
  if (secret === undefined || !looksLikeToken(secret)) return null
  return key !== undefined && verifier.isForeign(secret) ? null : secret
}
