import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import type { IssuedKeyStore } from '../../ports/issued-keys.ts'
import { hasBudget } from '../budgets.ts'
import { hasLimits } from '../key-limits.ts'
import { bearer, type HeaderReader, keyFailure } from './bearer.ts'
import { refuseForeignHost, refuseForeignPages } from './browser-guard.ts'
import { type Caller, callerOf, issuedCallerOf } from './caller.ts'
import {
  callerByKey,
  callerByToken,
  type FindCaller,
  type FindOpenCaller,
  type KeyHolders,
  loopbackCaller,
  noCaller,
  openCaller,
} from './find-caller.ts'
import { IssuedKeyCache } from './issued-key-cache.ts'
import { KeyStore } from './key-store.ts'
import { type TokenPorts, TokenVerifier } from './token-verifier.ts'

/** Why requests are accepted: by key, because the gateway is open, or because it listens on loopback; or not at all. */
type TrustMode = 'keys' | 'open' | 'loopback' | 'unconfigured'

type AccessConfig = Pick<
  Config,
  | 'keys'
  | 'jwt'
  | 'issuedKeys'
  | 'teams'
  | 'keyLimits'
  | 'regionPreference'
  | 'open'
  | 'loopback'
  | 'admin'
  | 'cors'
  | 'allowedHosts'
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

function issuedKeysOf(
  config: AccessConfig,
  { issuedKeys: store, now, log }: AuthenticatorPorts,
): IssuedKeyCache | null {
  if (config.issuedKeys === null || store === undefined) return null
  const { refreshMs } = config.issuedKeys
  return new IssuedKeyCache({ store, refreshMs, callerOf: (key) => issuedCallerOf(key, config), now, log })
}

interface AccessSources {
  readonly ports: TokenPorts
  /** null: no keys are made at run time. */
  readonly issued: IssuedKeyCache | null
}

/** Configured keys, and those that are made at run time. */
const withIssued = (configured: KeyHolders, issued: IssuedKeyCache): KeyHolders => ({
  find: async (secret) => {
    if (issued.has(secret)) return (await issued.find(secret)) ?? (await configured.find(secret))
    return (await configured.find(secret)) ?? (await issued.find(secret))
  },
})

interface Access {
  readonly find: FindCaller
  /** Callers that have keys or tokens. */
  readonly callers: readonly Caller[]
}

function openCallerOf({ cors, allowedHosts }: AccessConfig, trust: Exclude<TrustMode, 'keys'>): FindOpenCaller {
  if (trust === 'unconfigured') return noCaller
  return trust === 'open' ? openCaller(cors) : loopbackCaller(cors, allowedHosts)
}

function accessOf(config: AccessConfig, { ports, issued }: AccessSources): Access {
  const byKey = keyAccess(config, { ports, issued })
  return config.jwt === null ? byKey : tokenAccess(byKey, config.jwt, { config, ports })
}

function keyAccess(config: AccessConfig, { ports, issued }: AccessSources): Access {
  const holders = (config.keys ?? []).flatMap((key) => {
    const caller = callerOf(key.name, key, config)
    return key.secrets.map(({ secret, from, expires }) => ({ secret, holder: { caller, from, expires } }))
  })
  const configured = new KeyStore(holders)
  const all = issued === null ? configured : withIssued(configured, issued)
  return {
    find: callerByKey(all, () => ports.now()),
    callers: holders.map(({ holder }) => holder.caller),
  }
}

function tokenAccess(
  { find, callers }: Access,
  jwt: NonNullable<AccessConfig['jwt']>,
  { config, ports }: { readonly config: AccessConfig; readonly ports: TokenPorts },
): Access {
  const caller = callerOf('', { ...jwt, edge: false }, config)
  const tokens = { verifier: new TokenVerifier(jwt, ports), header: jwt.header, caller }
  return { find: callerByToken(find, tokens), callers: [...callers, caller] }
}

/** Authenticates requests. One per gateway. */
export class Authenticator {
  readonly trust: TrustMode
  /** Some key has limits of requests or tokens. */
  readonly hasLimits: boolean
  /** Some key or team has a budget. */
  readonly hasBudgets: boolean
  /** Some key belongs to a gateway in front of this one. */
  readonly hasEdges: boolean
  /** Finds the client of a request. */
  readonly caller: FindCaller
  /** As `caller`, without a promise. null: there are keys. */
  readonly openCaller: FindOpenCaller | null
  readonly #issued: IssuedKeyCache | null
  readonly #admins: KeyStore<true> | null
  readonly #allowedHosts: readonly string[]

  constructor(config: AccessConfig, ports: AuthenticatorPorts) {
    this.trust = trustOf(config)
    this.#allowedHosts = config.allowedHosts
    this.#issued = issuedKeysOf(config, ports)
    const { find, callers } = accessOf(config, { ports, issued: this.#issued })
    const open = this.trust === 'keys' ? null : openCallerOf(config, this.trust)
    this.openCaller = open
    this.caller = open === null ? find : async (headers) => open(headers)
    this.hasEdges = callers.some(({ edge }) => edge)
    this.hasBudgets = this.#issued !== null || callers.some(hasBudget)
    this.hasLimits = this.#issued !== null || callers.some(hasLimits)
    this.#admins = config.admin === null ? null : new KeyStore([{ secret: config.admin.secret, holder: true }])
  }

  /** Keys were made or revoked here: the next request reads them again. */
  issuedKeysChanged(): void {
    this.#issued?.expire()
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
