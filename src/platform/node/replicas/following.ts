/** Reads the open bookings of all other replicas in one pool: a snapshot, then every message behind it. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Result } from '../../../core/contract/contract.ts'
import type { Client, Link } from './connection.ts'
import { type PoolEvent, readEvents, readHash, readHeader } from './messages.ts'
import { PeerBookings, type PeerParts } from './peer-bookings.ts'
import type { PoolKeys } from './publishing.ts'

/** Fields of a hash read by one command: a few hundred KiB of long prompts. */
const HASH_FIELDS = 64
/** Bookings or messages applied in one turn of the event loop. */
const TURN_EVENTS = 32
const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 500

export interface Heartbeat {
  readonly registered: boolean
  /** Of the last message. */
  readonly number: number
  readonly present: readonly string[]
}

export interface FollowingParts extends PeerParts {
  readonly leaseMs: number
  readonly replica: string
  readonly keys: PoolKeys
  /** Reads snapshots. */
  readonly link: Link
  readonly heartbeat: () => Promise<Heartbeat>
  readonly explain: (event: Extract<PoolEvent, readonly ['explain' | 'explained', ...unknown[]]>) => void
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  readonly rejected: (error: Error) => void
  /** The subscription does not work and is made again on a new connection. */
  readonly failed: (error: Error) => void
}

interface Peer {
  readonly bookings: PeerBookings
  /** Number of the last message. */
  last: number
}

export class Following {
  readonly #parts: FollowingParts
  readonly #peers = new Map<string, Peer>()
  /** Messages since the subscription; null: the snapshot is applied, and messages are applied as they arrive. */
  #kept: string[] | null = []
  #last = 0
  /** Number of the last message at the previous heartbeat. */
  #expected = 0
  /** Counts snapshots; an earlier one that is still under way is abandoned. */
  #attempt = 0
  #isSubscribed = false
  #retryMs = FIRST_RETRY_MS
  #retry: NodeJS.Timeout | undefined

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** The snapshot is applied, and no message is missing. */
  get isCurrent(): boolean {
    return this.#isSubscribed && this.#kept === null
  }

  get peers(): Iterable<readonly [replica: string, { readonly bookings: PeerBookings }]> {
    return this.#peers
  }

  async subscribe(client: Client): Promise<void> {
    const { channel } = this.#parts.keys
    try {
      await client.sSubscribe(channel, (message) => this.#receive(message))
    } catch (error) {
      return this.#parts.failed(error as Error)
    }
    this.#isSubscribed = true
    this.resync()
  }

  unsubscribed(): void {
    this.#isSubscribed = false
    this.#attempt += 1
    this.#kept = []
    clearTimeout(this.#retry)
  }

  /** Takes a new snapshot. Messages are kept until it is applied. */
  resync(): void {
    if (!this.#isSubscribed) return
    clearTimeout(this.#retry)
    this.#kept = []
    void this.#join(++this.#attempt)
  }

  /** Removes replicas whose presence has expired, and detects lost messages. */
  checked({ number, present }: Heartbeat): void {
    if (!this.isCurrent) return
    if (this.#last < this.#expected) return this.#parts.failed(new Error('messages of the subscription are missing'))
    this.#expected = number
    for (const [replica, { last }] of this.#peers)
      if (last <= number && !present.includes(replica)) this.#remove(replica, 'lapsed')
  }

  /** Renews bookings of replicas whose presence the server has confirmed `awayMs` ago. */
  async renew(now: number, awayMs: number): Promise<void> {
    if (!this.isCurrent || awayMs > this.#parts.leaseMs) return
    const kept = await Promise.all(Array.from(this.#peers.values(), ({ bookings }) => bookings.renew(now)))
    if (kept.includes(false) && this.isCurrent) this.resync()
  }

  /**
   * Forgets replicas that could not be followed for longer than their bookings live. The next snapshot adds them
   * again.
   */
  expire(awayMs: number): void {
    const { size } = this.#peers
    for (const [replica, { bookings }] of this.#peers)
      if (awayMs > Math.max(this.#parts.leaseMs, bookings.leaseMs)) this.#remove(replica, 'lapsed')
    if (this.#peers.size < size) this.resync()
  }

  close(): void {
    this.unsubscribed()
    for (const { bookings } of this.#peers.values()) bookings.end('abandoned')
  }

  #receive(message: string): void {
    if (this.#kept !== null) this.#kept.push(message)
    else this.#apply(message)
  }

  #apply(message: string): void {
    const { replica: own, rejected } = this.#parts
    const header = readHeader(message)
    if (header === null || header.number !== this.#last + 1) return this.resync()
    this.#last = header.number
    if (header.replica === own) return
    for (const event of readEvents(header.events, rejected)) this.#handle(header.replica, header.number, event)
  }

  #handle(replica: string, number: number, event: PoolEvent): void {
    if (event[0] === 'leave') return this.#remove(replica, 'abandoned')
    if (event[0] === 'explain' || event[0] === 'explained') return this.#parts.explain(event)
    const known = this.#peers.get(replica)
    const peer = known ?? this.#add(replica)
    peer.last = number
    // It was taken for dead: its earlier bookings are gone here.
    if (known === undefined && event[0] !== 'begin') this.resync()
    peer.bookings.receive(event)
  }

  async #join(attempt: number): Promise<void> {
    try {
      const { number, present } = await this.#parts.heartbeat()
      if (attempt !== this.#attempt) return
      for (const replica of present) {
        if (replica === this.#parts.replica) continue
        const fields = await this.#hashOf(replica)
        if (attempt !== this.#attempt) return
        await this.#applySnapshot(replica, number, fields)
        if (attempt !== this.#attempt) return
      }
      if (attempt !== this.#attempt) return
      for (const replica of this.#peers.keys()) if (!present.includes(replica)) this.#remove(replica, 'lapsed')
      this.#last = number
      this.#expected = 0
      await this.#applyKept(attempt, number)
      this.#retryMs = FIRST_RETRY_MS
    } catch (error) {
      if (attempt !== this.#attempt) return
      this.#parts.rejected(error as Error)
      this.#later()
    }
  }

  async #hashOf(replica: string): Promise<ReadonlyMap<string, string>> {
    const fields = new Map<string, string>()
    const key = this.#parts.keys.open(replica)
    let cursor = '0'
    do {
      const { client } = this.#parts.link
      if (client === null) throw new Error('not connected')
      const page = await client.hScan(key, cursor, { COUNT: HASH_FIELDS })
      for (const { field, value } of page.entries) fields.set(field, value)
      cursor = String(page.cursor)
    } while (cursor !== '0')
    return fields
  }

  async #applySnapshot(replica: string, number: number, fields: ReadonlyMap<string, string>): Promise<void> {
    const { bookings } = this.#add(replica)
    this.#peers.get(replica)!.last = number
    bookings.receive(['begin'])
    let at = 0
    for (const event of readHash(fields, this.#parts.rejected)) {
      if (++at % TURN_EVENTS === 0) await nextTurn()
      bookings.receive(event)
    }
    bookings.receive(['end'])
  }

  /** Messages that arrived since the subscription. Those up to `number` are part of the snapshot. */
  async #applyKept(attempt: number, number: number): Promise<void> {
    for (let at = 0; attempt === this.#attempt; at++) {
      const message = this.#kept?.[at]
      if (message === undefined) break
      if (at % TURN_EVENTS === TURN_EVENTS - 1) await nextTurn()
      if (attempt === this.#attempt && (readHeader(message)?.number ?? 0) > number) this.#apply(message)
    }
    if (attempt === this.#attempt) this.#kept = null
  }

  #later(): void {
    this.#attempt += 1
    this.#kept = []
    this.#retry = setTimeout(() => this.resync(), this.#retryMs).unref()
    this.#retryMs = Math.min(LONGEST_RETRY_MS, 2 * this.#retryMs)
  }

  #add(replica: string): Peer {
    const known = this.#peers.get(replica)
    if (known !== undefined) return known
    const peer = { bookings: new PeerBookings(this.#parts), last: this.#last }
    this.#peers.set(replica, peer)
    this.#parts.joined(replica)
    return peer
  }

  #remove(replica: string, result: Result): void {
    const peer = this.#peers.get(replica)
    if (peer === undefined) return
    this.#peers.delete(replica)
    this.#parts.left(replica, peer.bookings.end(result), result)
  }
}
