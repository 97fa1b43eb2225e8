import { BoundedMap } from '../../core/bounded-map.ts'
import type { IssuedKey } from '../../core/keys/issued-key.ts'
import { Failure } from '../../failure.ts'
import type { IssuedKeyStore } from '../../ports/issued-keys.ts'
import type { Log } from '../../ports/log.ts'
import { sha256 } from '../../sha256.ts'
import type { Caller } from './caller.ts'

/** Minimum time between two reads because of unknown secrets, ms: strangers must not cause a flood of reads. */
const UNKNOWN_MS = 1_000

/** Minimum time between two reads after a failure, ms. */
const PAUSE_MS = 1_000

/** Secrets whose hash is cached. */
const MAX_SECRETS = 10_000

interface CacheParts {
  readonly store: IssuedKeyStore
  /** Age at which the keys are read again, ms. */
  readonly refreshMs: number
  readonly callerOf: (key: IssuedKey) => Caller
  readonly now: () => number
  readonly log: Pick<Log, 'warn'>
}

/** Holder of an issued key. */
interface IssuedCaller {
  readonly caller: Caller
  readonly from: null
  readonly expires: string | null
}

/**
 * Issued keys as this gateway last read them. A request whose copy is too old reads them itself: on Workers no promise
 * may pass from one request to another. While the store is unreachable, the last copy is used.
 */
export class IssuedKeyCache {
  readonly #parts: CacheParts
  readonly #hashes = new BoundedMap<string, string>(MAX_SECRETS)
  #byHash: ReadonlyMap<string, IssuedCaller> = new Map()
  #version: string | null = null
  #readAt = -Infinity
  #failedAt = -Infinity

  constructor(parts: CacheParts) {
    this.#parts = parts
  }

  /** Whether this secret was accepted before, so that no other list needs to be searched first. */
  has(secret: string): boolean {
    return this.#hashes.get(secret) !== undefined
  }

  /** null: no such key. Fails with `state_unreachable` if the keys have never been read. */
  async find(secret: string): Promise<IssuedCaller | null> {
    const hash = this.#hashes.get(secret) ?? (await sha256(secret))
    await this.#refresh(this.#parts.refreshMs)
    if (!this.#byHash.has(hash)) await this.#refresh(UNKNOWN_MS)
    if (this.#version === null)
      throw new Failure('state_unreachable', 'The gateway cannot read its keys at the moment. Try again shortly.', {
        retryAfterMs: PAUSE_MS,
      })
    const found = this.#byHash.get(hash) ?? null
    if (found !== null) this.#hashes.set(secret, hash)
    return found
  }

  /** The next request reads the keys again: they were changed here. */
  expire(): void {
    this.#readAt = -Infinity
    this.#failedAt = -Infinity
  }

  async #refresh(maxAgeMs: number): Promise<void> {
    const { store, callerOf, now, log } = this.#parts
    if (now() - this.#readAt < maxAgeMs || now() - this.#failedAt < PAUSE_MS) return
    try {
      const read = await store.read(this.#version)
      this.#readAt = now()
      if (read === null) return
      this.#version = read.version
      this.#byHash = new Map(
        read.keys.map((key) => [key.sha256, { caller: callerOf(key), from: null, expires: key.expires }]),
      )
    } catch (error) {
      this.#failedAt = now()
      log.warn('issued_keys_unreachable', { error, uses_last_copy: this.#version !== null })
    }
  }
}
