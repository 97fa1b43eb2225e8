import type { Config, KeySecret } from '../../config.ts'
import { Failure } from '../../failure.ts'
import type { IssuedKeyStore } from '../../ports/issued-keys.ts'
import { hasLimits } from '../key-limits.ts'
import { bearer, type HeaderReader, keyFailure } from './bearer.ts'
import { refuseForeignHost, refuseForeignPages } from './browser-guard.ts'
import { ANYONE, type Caller, callerOf, issuedCallerOf } from './caller.ts'
import { IssuedKeyCache } from './issued-key-cache.ts'
import { KeyStore } from './key-store.ts'
import { looksLikeToken, type TokenPorts, TokenVerifier } from './token-verifier.ts'

/** Why requests are accepted: by key, because the gateway is open, or because it listens on loopback; or not at all. */
type TrustMode = 'keys' | 'open' | 'loopback' | 'unconfigured'

type AccessConfig = Pick<
  Config,
  'keys' | 'jwt' | 'issuedKeys' | 'teams' | 'keyLimits' | 'open' | 'loopback' | 'admin' | 'cors' | 'allowedHosts'
>

type TrustConfig = Pick<Config, 'keys' | 'jwt' | 'issuedKeys' | 'open' | 'loopback'>

interface AuthenticatorPorts extends TokenPorts {
  /** Absent: no keys are made at run time. */
  readonly issuedKeys?: IssuedKeyStore | undefined
}

function trustOf({ keys, jwt, issuedKeys, open, loopback }: TrustConfig): TrustMode {
  if (keys !== null || jwt !== null || issuedKeys !== null) return 'keys'
  if (open) return 'open'
  return loopback ? 'loopback' : 'unconfigured'
}

/** Whom a secret belongs to, and when it is accepted. */
type Holder = { readonly caller: Caller } & Pick<KeySecret, 'from' | 'expires'>

function issuedKeysOf(
  config: AccessConfig,
  { issuedKeys: store, now, log }: AuthenticatorPorts,
): IssuedKeyCache | null {
  if (config.issuedKeys === null || store === undefined) return null
  const { refreshMs } = config.issuedKeys
  return new IssuedKeyCache({ store, refreshMs, callerOf: (key) => issuedCallerOf(key, config), now, log })
}

/** Authenticates requests. One per gateway. */
export class Authenticator {
  readonly trust: TrustMode
  /** Some key has limits of requests or tokens. */
  readonly hasLimits: boolean
  /** Some key belongs to a gateway in front of this one. */
  readonly hasEdges: boolean
  readonly #callers: KeyStore<Holder>
  readonly #tokens: { readonly verifier: TokenVerifier; readonly header: string | null; readonly caller: Caller } | null
  /** null: no keys are made at run time. */
  readonly #issued: IssuedKeyCache | null
  readonly #now: () => number
  readonly #admins: KeyStore<true> | null
  readonly #cors: Config['cors']
  readonly #allowedHosts: readonly string[]

  constructor(config: AccessConfig, ports: AuthenticatorPorts) {
    const { jwt } = config
    this.trust = trustOf(config)
    this.#cors = config.cors
    this.#allowedHosts = config.allowedHosts
    const holders = (config.keys ?? []).flatMap((key) => {
      const caller = callerOf(key.name, key, config)
      return key.secrets.map(({ secret, from, expires }) => ({ secret, holder: { caller, from, expires } }))
    })
    this.#callers = new KeyStore(holders)
    this.#now = () => ports.now()
    this.#tokens =
      jwt === null
        ? null
        : {
            verifier: new TokenVerifier(jwt, ports),
            header: jwt.header,
            caller: callerOf('', { ...jwt, edge: false }, config),
          }
    const callers = [
      ...holders.map(({ holder }) => holder.caller),
      ...(this.#tokens === null ? [] : [this.#tokens.caller]),
    ]
    this.hasEdges = callers.some(({ edge }) => edge)
    this.#issued = issuedKeysOf(config, ports)
    this.hasLimits = this.#issued !== null || callers.some(hasLimits)
    this.#admins = config.admin === null ? null : new KeyStore([{ secret: config.admin.secret, holder: true }])
  }

  /** `apiKeyHeader`: also accept `x-api-key`, as Anthropic's clients send it. */
  async caller(headers: HeaderReader, apiKeyHeader: boolean): Promise<Caller> {
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
    const found = await this.#holderOf(secret)
    if (found === null)
      throw keyFailure('key_wrong', 'Invalid API key. Check the key, or ask the operator of this gateway for one.')
    const { caller, from, expires } = found
    if (from !== null && this.#now() < Date.parse(from))
      throw keyFailure('key_wrong', `This API key is accepted from ${from} on. Until then send the previous one.`)
    if (expires !== null && this.#now() >= Date.parse(expires))
      throw keyFailure(
        'key_expired',
        `This API key expired on ${expires}. Ask the operator of this gateway for another.`,
      )
    return caller
  }

  /** Keys were made or revoked here: the next request reads them again. */
  issuedKeysChanged(): void {
    this.#issued?.expire()
  }

  async #holderOf(secret: string): Promise<Holder | null> {
    const issued = this.#issued
    if (issued === null) return this.#callers.find(secret)
    if (issued.has(secret)) return (await issued.find(secret)) ?? (await this.#callers.find(secret))
    return (await this.#callers.find(secret)) ?? (await issued.find(secret))
  }

  /** The token of the configured header, or the key if it looks like one. null: none. */
  #tokenIn(headers: HeaderReader, secret: string | null): string | null {
    if (this.#tokens === null) return null
    const { header } = this.#tokens
    if (header !== null) return headers.get(header)
    return secret !== null && looksLikeToken(secret) ? secret : null
  }

  /** Without keys on a loopback listener the admin API is open. Otherwise it needs `admin.secret`. */
  async admin(headers: HeaderReader): Promise<void> {
    if (this.#admins === null) {
      if (this.trust !== 'loopback') {
        throw new Failure(
          'not_configured',
          'The admin API is disabled. Set admin.secret in the configuration and send it as a bearer token.',
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
      throw keyFailure('key_wrong', 'Invalid admin key. Check it, or ask the operator of this gateway for it.')
  }
}
