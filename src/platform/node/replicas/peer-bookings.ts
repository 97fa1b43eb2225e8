/** Reads the open bookings of all other replicas in one pool: the hash of each, then every message. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ChurnMap } from '../../../core/churn-map.ts'
import { endedAs, type Result } from '../../../core/contract/outcome.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Client } from './connection.ts'
import {
  type NewBookingEvent,
  type NewsEvent,
  type ChannelEvent,
  readEvents,
  readHash,
  readMessage,
  decodeAdmission,
  type EncodedAdmission,
} from './messages.ts'
import type { OpenBookings } from './open-bookings.ts'
import type { FeedParts, PoolParts } from './pool-parts.ts'
import { SCRIPTS } from './scripts.ts'

/** Fields of a hash read by one command: a few hundred KiB of long prompts. */
const HASH_FIELDS = 64
/** Events of a hash applied in one turn of the event loop. */
const TURN_EVENTS = 32
/** Heartbeats published without hearing one, after which the subscription does not work. */
const MAX_MISSED_HEARTBEATS = 2
const NO_BLOCKS = new Uint32Array(0)

/** @testing */
export interface PeerBookingsParts extends PoolParts, Pick<FeedParts, 'joined' | 'left' | 'failed'> {
  readonly openBookings: OpenBookings
  readonly onNews: (event: NewsEvent) => void
}

/** Another replica. */
class Peer {
  /** Keys of its open bookings. */
  readonly bookingKeys = new ChurnMap<string, true>()
  /** Number of its last message, or of its hash if that is read and none was received; null: neither. */
  last: number | null = null
  /** Own heartbeat before its last message. */
  receivedAt = 0
  /** Messages until its hash is read; null: it is. Another list: it is read again. */
  pending: (readonly ChannelEvent[])[] | null = []
}

export class PeerBookings {
  readonly #parts: PeerBookingsParts
  readonly #peers = new Map<string, Peer>()
  #isSubscribed = false
  #isReading = false
  /** Heartbeats sent; published since the last that was heard; and at the time when a replica last left. */
  #heartbeats = 0
  #missedHeartbeats = 0
  #leftAt = 0
  /** Last heartbeat that was answered; monotonic ms. */
  #confirmedAt = performance.now()
  #renewedAt = 0

  constructor(parts: PeerBookingsParts) {
    this.#parts = parts
  }

  /** Other replicas with the number of their bookings. `isCurrent`: no message is missing. */
  *peers(): Generator<{ readonly id: string; readonly isCurrent: boolean; readonly bookings: number }> {
    for (const [id, { bookingKeys, pending }] of this.#peers)
      yield { id, isCurrent: this.#isSubscribed && pending === null, bookings: bookingKeys.size }
  }

  async subscribe(client: Client): Promise<void> {
    try {
      await client.sSubscribe(this.#parts.keys.channel, (message) => this.#receive(message))
    } catch (error) {
      return this.#parts.failed(error as Error)
    }
    this.#isSubscribed = true
    this.resync()
  }

  unsubscribed(): void {
    this.#isSubscribed = false
  }

  has(replica: string): boolean {
    return this.#peers.has(replica)
  }

  /** Reads all replicas again. */
  resync(): void {
    if (!this.#isSubscribed) return
    this.#missedHeartbeats = 0
    for (const peer of this.#peers.values()) [peer.pending, peer.last] = [[], null]
    this.heartbeat().catch(this.#parts.rejected)
  }

  /** Time since the server last listed the present replicas, in ms. */
  get awayMs(): number {
    return performance.now() - this.#confirmedAt
  }

  /** Renews the presence of this replica and checks that of the others. Rejects if the server does not answer. */
  async heartbeat(): Promise<void> {
    const { replica, keys, leaseMs, control, openBookings } = this.#parts
    const { acknowledged } = openBookings
    const sentAt = ++this.#heartbeats
    const given = [replica, String(acknowledged), keys.channel, String(leaseMs)]
    const answer = await control.run(SCRIPTS.heartbeat, [keys.bookings(replica), keys.present], given)
    this.#confirmedAt = performance.now()
    const [isRegistered, ...present] = answer as readonly (string | number)[]
    if (isRegistered === 0 && acknowledged > 0 && openBookings.acknowledged >= acknowledged) openBookings.rewrite()
    if (!this.#isSubscribed) return
    if (isRegistered === 1 && ++this.#missedHeartbeats > MAX_MISSED_HEARTBEATS)
      return this.#parts.failed(new Error('messages of the subscription are missing'))
    this.#check(sentAt, new Set(present.map(String)))
  }

  /** Renews bookings while their replicas are followed. Otherwise they lapse in the ledger. */
  tick(now: number): void {
    const { localPool, leaseMs, pool } = this.#parts
    if (!this.#isSubscribed || this.awayMs > leaseMs || now - this.#renewedAt < (pool()?.leaseMs ?? Infinity) / 4)
      return
    this.#renewedAt = now
    for (const peer of this.#peers.values())
      for (const [key] of peer.bookingKeys) if (!localPool.local!.apply(['progress', key, 0])) peer.pending ??= []
    void this.#readAll()
  }

  /**
   * Removes replicas whose presence has expired, adds those that are new, and reads what has not been read. Messages
   * may overtake the answer: those of a replica that was heard after `sentAt` are later.
   */
  #check(sentAt: number, present: ReadonlySet<string>): void {
    for (const [replica, { receivedAt }] of this.#peers)
      if (receivedAt < sentAt && !present.has(replica)) this.#remove(replica, 'lapsed')
    if (this.#leftAt < sentAt) for (const replica of present) if (replica !== this.#parts.replica) this.#peerOf(replica)
    void this.#readAll()
  }

  /** One after the other. After a failure the next heartbeat repeats it. */
  async #readAll(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    const unread = () => [...this.#peers].find(([, { pending }]) => pending !== null)
    try {
      for (let next = unread(); next !== undefined; next = unread()) await this.#read(...next)
    } catch (error) {
      this.#parts.rejected(error as Error)
    }
    this.#isReading = false
  }

  async #read(replica: string, peer: Peer): Promise<void> {
    const pending = peer.pending!
    let count = 0
    const isStale = async () => (++count % TURN_EVENTS === 0 && (await nextTurn()), peer.pending !== pending)
    const { number, fields } = await this.#hashOf(replica)
    if (await isStale()) return
    peer.last ??= number
    // A former primary that has not learned of its failover, or a server that has lost writes, which are written again.
    if (number < peer.last - pending.length) throw new Error('outdated: the server has less than was published')
    const gone = new Set(Array.from(peer.bookingKeys, ([key]) => key))
    for (const event of readHash(fields, this.#parts.rejected)) {
      if (await isStale()) return
      if (event[0] === 'book') gone.delete(keyOf(event[2]))
      this.#apply(peer, event, 'before')
    }
    if (await isStale()) return
    for (const key of gone) this.#end(peer, key, 'abandoned')
    for (const message of pending)
      for (const event of message) {
        if (await isStale()) return
        this.#apply(peer, event)
      }
    if (peer.pending === pending) peer.pending = null
  }

  /** @returns number: lowest of the nodes that were read, which may differ in a failover */
  async #hashOf(replica: string): Promise<{ readonly number: number; readonly fields: ReadonlyMap<string, string> }> {
    const { control, keys } = this.#parts
    const fields = new Map<string, string>()
    let [number, cursor] = [Infinity, '0']
    do {
      const answer = await control.run(SCRIPTS.read, [keys.bookings(replica)], [cursor, String(HASH_FIELDS)])
      const [last, next, page] = answer as readonly [string | null, string, readonly string[]]
      for (let at = 0; at < page.length; at += 2) fields.set(page[at]!, page[at + 1]!)
      number = Math.min(number, Number(last))
      cursor = next
    } while (cursor !== '0')
    return { number, fields }
  }

  #receive(text: string): void {
    const message = readMessage(text)
    if (message === null) return
    const { number, replica, events } = message
    if (replica === this.#parts.replica) return void (this.#missedHeartbeats = 0)
    const peer = this.#peerOf(replica)
    const all = readEvents(events, this.#parts.rejected)
    // A heartbeat repeats the last number.
    const next = (peer.last ?? number) + (events === '[]' || peer.last === null ? 0 : 1)
    const isNext = number === next || all[0]?.[0] === 'begin'
    if (!isNext || all.some(([kind]) => kind === 'whole' || (kind === 'begin' && peer.pending !== null)))
      peer.pending = []
    peer.last = number
    peer.receivedAt = this.#heartbeats
    if (all[0]?.[0] === 'leave') return this.#remove(replica, 'abandoned')
    if (peer.pending === null) for (const event of all) this.#apply(peer, event)
    else {
      if (events !== '[]') peer.pending.push(all)
      void this.#readAll()
    }
  }

  #apply(peer: Peer, event: ChannelEvent, ofPeer: 'now' | 'before' = 'now'): void {
    const { localPool } = this.#parts
    switch (event[0]) {
      case 'book':
        return this.#addBooking(peer, event, ofPeer)
      case 'leg_done':
      case 'first_token':
      case 'progress':
        if (peer.bookingKeys.has(event[1])) localPool.local!.apply(event)
        return
      case 'release':
        if (peer.bookingKeys.delete(event[1])) localPool.local!.apply(event)
        return
      case 'begin':
      case 'piece':
      case 'whole':
      case 'leave':
        return
      default:
        this.#parts.onNews(event)
    }
  }

  #addBooking(peer: Peer, [, ofBlocks, encoded, placement]: NewBookingEvent, ofPeer: 'now' | 'before'): void {
    const { localPool, pool } = this.#parts
    const blockTokens = pool()?.blockTokens
    if (blockTokens === undefined) return
    const admission = decodeAdmission(encoded)
    peer.bookingKeys.set(keyOf(encoded), true)
    // Blocks of another size have other hashes; the booking counts as load only.
    const fitting = ofBlocks === blockTokens ? admission : { ...admission, blocks: NO_BLOCKS }
    localPool.local!.apply(['book', { admission: fitting, placement, firstTokenSeen: false, outputBlocks: 0, ofPeer }])
  }

  #peerOf(replica: string): Peer {
    const known = this.#peers.get(replica)
    if (known !== undefined) return known
    const peer = new Peer()
    this.#peers.set(replica, peer)
    this.#parts.joined(replica)
    return peer
  }

  #remove(replica: string, result: Result): void {
    const peer = this.#peers.get(replica)
    if (peer === undefined) return
    this.#peers.delete(replica)
    if (result === 'abandoned') this.#leftAt = this.#heartbeats
    // A reader of its hash ends.
    peer.pending = []
    const { size } = peer.bookingKeys
    for (const [key] of peer.bookingKeys) this.#end(peer, key, result)
    this.#parts.left(replica, size, result)
  }

  #end(peer: Peer, key: string, result: Result): void {
    this.#apply(peer, ['release', key, endedAs(result)])
  }
}

const keyOf = ({ id, attempt = 0 }: EncodedAdmission): string => bookingKey({ id, attempt })
