import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { matchesHost } from '../../url.ts'
import { ANYONE, type Caller, callerOf } from './caller.ts'
import { KeyStore } from './key-store.ts'
import { looksLikeToken, type TokenPorts, TokenVerifier } from './token-verifier.ts'
import { allowedOrigin } from '../cors.ts'

/** The part of a request's headers that is read here. */
type HeaderReader = Pick<Headers, 'get'>

/** Why requests are accepted: by key, because the gateway is open, or because it listens on loopback; or not at all. */
type TrustMode = 'keys' | 'open' | 'loopback' | 'unconfigured'

type AccessConfig = Pick<Config, 'keys' | 'jwt' | 'keyLimits' | 'open' | 'loopback' | 'admin' | 'cors' | 'allowedHosts'>

function trustOf({ keys, jwt, open, loopback }: Pick<AccessConfig, 'keys' | 'jwt' | 'open' | 'loopback'>): TrustMode {
  if (keys !== null || jwt !== null) return 'keys'
  if (open) return 'open'
  return loopback ? 'loopback' : 'unconfigured'
}

/** Authenticates requests. One per gateway. */
export class Authenticator {
  readonly trust: TrustMode
  readonly #callers: KeyStore<{ readonly caller: Caller; readonly expires: string | null }>
  readonly #tokens: { readonly verifier: TokenVerifier; readonly header: string | null; readonly caller: Caller } | null
  readonly #now: () => number
  readonly #admins: KeyStore<true> | null
  readonly #cors: Config['cors']
  readonly #allowedHosts: readonly string[]

  constructor(config: AccessConfig, ports: TokenPorts) {
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
): (headers: HeaderReader) => Promise<void> {
  const keys = new KeyStore(secret === null ? [] : [{ secret, holder: true }])
  return async (headers) => {
    const shown = bearer(headers)
    if (shown !== null && (await keys.find(shown)) !== null) return
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

/** null: no bearer token was sent. */
export function bearer(headers: HeaderReader): string | null {
  const value = headers.get('authorization')
  return value === null ? null : (/^bearer +(\S+) *$/i.exec(value)?.[1] ?? null)
}

function keyFailure(reason: 'key_missing' | 'key_wrong' | 'key_expired', message: string): Failure {
  return new Failure(reason, message, { headers: { 'www-authenticate': 'Bearer' } })
}

/** A gateway without keys must not serve pages of the user's browser. Browsers always send this header. */
function refuseForeignPages(headers: HeaderReader, cors: Config['cors']): void {
  if (headers.get('sec-fetch-site') !== 'cross-site' || allowedOrigin(cors, headers) !== undefined) return
  throw new Failure(
    'forbidden',
    'A page of another site may not use a gateway that runs without keys. Set `keys` in its configuration, or ' +
      'let the page in by `cors`.',
  )
}

const LOOPBACK_HOST = /^(?:localhost|[\w-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** With DNS rebinding, a foreign name resolves to this host and a page has the gateway's origin. */
function refuseForeignHost(headers: HeaderReader, allowed: readonly string[]): void {
  const host = headers.get('host')?.toLowerCase().replace(/:\d+$/, '')
  // Only HTTP/1.0 has no host, and browsers do not use it.
  if (host === undefined || LOOPBACK_HOST.test(host) || allowed.some((one) => matchesHost(host, one))) return
  throw new Failure(
    'forbidden',
    `This gateway has no keys and is served to loopback names only, not to the host '${host.slice(0, 100)}'. ` +
      'Add the host to allowed_hosts, or set keys (for the admin routes admin.secret).',
  )
}
