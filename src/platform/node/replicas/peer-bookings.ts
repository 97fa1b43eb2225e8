import { endedAs, type EngineSignal, type Result } from '../../../core/contract/contract.ts'
import { readOutcome } from '../../../core/contract/decode.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Cluster, StoredResponses, Lease, PoolName } from '../../../ports.ts'
import { JUST_MADE, received, receivedCall, type Word } from './messages.ts'

const NO_BLOCKS = new Uint32Array(0)

/** What another replica's words act on here. */
export interface Adopting {
  /** The books themselves; null: there is no such pool here. */
  readonly books: (
    ...name: PoolName
  ) => { readonly cluster: Cluster; readonly blockTokens: number; readonly leaseMs: number } | null
  readonly held: StoredResponses
  /** What was said to the other. false: it holds no longer. */
  readonly heard: (pool: PoolName, signal: EngineSignal, at: number) => boolean
}

/** The bookings of one other replica, in this one's books. Its words may come twice or late, and may be those of another version. */
export class PeerBookings {
  readonly #to: Adopting
  /** A promise until it is booked: what is said meanwhile waits for it, in order. */
  readonly #leases = new Map<string, Lease | Promise<Lease>>()
  /** Told again since `begin`; null: all was told. */
  #seen: Set<string> | null = null
  /** Of all pools it has booked in. */
  #shortestLeaseMs = Infinity
  #longestLeaseMs = 0

  constructor(to: Adopting) {
    this.#to = to
  }

  get size(): number {
    return this.#leases.size
  }

  /** How often it is to be renewed while it lives. */
  get renewMs(): number {
    return this.#shortestLeaseMs / 4
  }

  /** What it books lapses so long after it was renewed last. */
  get longestLeaseMs(): number {
    return this.#longestLeaseMs
  }

  /** It tells anew what lives. */
  begin(): void {
    this.#seen = new Set()
  }

  receive(word: Word): void {
    switch (word[0]) {
      case 'book':
        return this.#book(word)
      case 'leg_done':
        return this.#tell(word[1], (lease) => lease.legDone?.(word[2], word[3], word[4]))
      case 'first_token':
        return this.#tell(word[1], (lease) => lease.firstToken(word[2]))
      case 'progress':
        return this.#tell(word[1], (lease) => lease.progress(word[2]))
      case 'release':
        return this.#release(word[1], readOutcome(word[2]))
      case 'signal':
        if (!this.#to.heard(word[1], word[2], word[3])) return
        return void this.#to
          .books(...word[1])
          ?.cluster.observe([word[2]])
          .catch(ignored)
      case 'registry':
        return void this.#to
          .books(...word[1])
          ?.cluster.registry?.(receivedCall(word[2]))
          .catch(ignored)
      case 'held':
        return this.#to.held.keep(word[1], word[2])
      case 'forgotten':
        return void this.#to.held.forget(word[1])
      case 'all':
        return this.#endUnseen()
    }
  }

  /** It lives, and all its bookings with it. false: one of them was forgotten here, so that it must be told again. */
  async renew(): Promise<boolean> {
    const renewals = Array.from(this.#leases, async ([key, told]) => {
      const lease = await told
      // It may end before it is renewed: more words may come before any promise is kept.
      return lease.renew().then(
        () => true,
        () => this.#leases.get(key) !== lease,
      )
    })
    // Told anew at this moment: what was forgotten comes, or has ended.
    const isTold = this.#seen !== null
    return (await Promise.allSettled(renewals)).every(
      (renewal) => isTold || (renewal.status === 'fulfilled' && renewal.value),
    )
  }

  /** It is gone, and its streams with it. */
  end(result: Result): number {
    const { size } = this.#leases
    for (const key of this.#leases.keys()) this.#release(key, endedAs(result))
    return size
  }

  #book([, pool, blockTokens, asked, placement, course]: Extract<Word, readonly ['book', ...unknown[]]>): void {
    const key = bookingKey(asked)
    this.#seen?.add(key)
    const known = this.#to.books(...pool)
    if (known === null) return
    this.#shortestLeaseMs = Math.min(this.#shortestLeaseMs, known.leaseMs)
    this.#longestLeaseMs = Math.max(this.#longestLeaseMs, known.leaseMs)
    const admission = received(asked)
    // Blocks of another size have other hashes; it is load all the same.
    const fitting = blockTokens === known.blockTokens ? admission : { ...admission, blocks: NO_BLOCKS }
    const booked = known.cluster.resume({
      admission: fitting,
      placement,
      ...(course ?? JUST_MADE),
      elsewhere: course === undefined ? 'now' : 'before',
    })
    this.#leases.set(key, booked)
    booked.then(
      (lease) => this.#leases.get(key) === booked && this.#leases.set(key, lease),
      () => this.#leases.get(key) === booked && this.#leases.delete(key),
    )
  }

  #tell(key: string, say: (lease: Lease) => Promise<void> | undefined): void {
    const lease = this.#leases.get(key)
    if (lease === undefined) return
    if (lease instanceof Promise) void lease.then(say).catch(ignored)
    else void say(lease)?.catch(ignored)
  }

  #release(key: string, outcome: ReturnType<typeof endedAs>): void {
    this.#tell(key, (lease) => lease.release(outcome))
    this.#leases.delete(key)
  }

  #endUnseen(): void {
    if (this.#seen === null) return
    for (const key of this.#leases.keys()) if (!this.#seen.has(key)) this.#release(key, endedAs('abandoned'))
    this.#seen = null
  }
}

/** Books in this process fail at nothing but what is no booking any more. */
const ignored = (): void => undefined
