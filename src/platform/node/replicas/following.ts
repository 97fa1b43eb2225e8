/** Reads the open bookings of all other replicas in one pool: a snapshot, then every message behind it. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { endedAs, type EngineSignal, type Result, type Resume } from '../../../core/contract/contract.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Cluster } from '../../../ports.ts'
import type { Client, Link } from './connection.ts'
import {
  type PoolEvent,
  readEvents,
  readHash,
  readMessage,
  received,
  type SentAdmission,
  unpackedCall,
} from './messages.ts'
import type { PoolKeys } from './open-bookings.ts'

/** Fields of a hash read by one command: a few hundred KiB of long prompts. */
const HASH_FIELDS = 64
/** Events of a snapshot applied in one turn of the event loop. */
const TURN_EVENTS = 32
const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 500
const NO_BLOCKS = new Uint32Array(0)

/** The ledger of one pool, which events of other replicas change. */
export interface PoolLedger {
  readonly cluster: Cluster
  readonly blockTokens: number
  readonly leaseMs: number
}

export interface Heartbeat {
  readonly registered: boolean
  /** Of the last message. */
  readonly number: number
  readonly present: readonly string[]
}

export interface FollowingParts {
  readonly replica: string
  readonly keys: PoolKeys
  readonly leaseMs: number
  /** Reads snapshots. */
  readonly control: Pick<Link, 'client'>
  /** null: the pool is not configured here. */
  readonly ledger: () => PoolLedger | null
  readonly heartbeat: () => Promise<Heartbeat>
  readonly explain: (event: Extract<PoolEvent, readonly ['explain' | 'explained', ...unknown[]]>) => void
  readonly signalled: (signal: EngineSignal, at: number) => void
  readonly forget: (responseId: string) => void
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  readonly rejected: (error: Error) => void
  /** The subscription does not work and is made again on a new connection. */
  readonly failed: (error: Error) => void
}

/** Another replica. */
class Peer {
  /** Keys of its open bookings. */
  readonly open = new Set<string>()
  /** Number of its last message. */
  last = 0
  /** Events since its snapshot is being read; null: it is applied. Another list: it is read again. */
  kept: PoolEvent[] | null = null
}

export class Following {
  readonly #parts: FollowingParts
  readonly #peers = new Map<string, Peer>()
  /** Messages since the subscription; null: the number of the snapshot is known. */
  #kept: string[] | null = []
  #last = 0
  /** Number of the last message at the previous heartbeat. */
  #expected = 0
  #isSubscribed = false
  #renewedAt = 0
  #retryMs = FIRST_RETRY_MS
  #retry: NodeJS.Timeout | undefined

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** Other replicas with the number of their bookings. `isCurrent`: no message is missing. */
  *peers(): Generator<{ readonly id: string; readonly isCurrent: boolean; readonly bookings: number }> {
    const isCurrent = this.#isSubscribed && this.#kept === null
    for (const [id, { open, kept }] of this.#peers)
      yield { id, isCurrent: isCurrent && kept === null, bookings: open.size }
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
    this.#abandon()
  }

  /** Takes a new snapshot. Messages are kept until it is applied. */
  resync(): void {
    if (!this.#isSubscribed) return
    this.#abandon()
    void this.#join(this.#kept!)
  }

  /** Removes replicas whose presence has expired, and detects lost messages. */
  checked({ number, present }: Heartbeat): void {
    if (this.#kept !== null) return
    if (this.#last < this.#expected) return this.#parts.failed(new Error('messages of the subscription are missing'))
    this.#expected = number
    for (const [replica, { last }] of this.#peers)
      if (last <= number && !present.includes(replica)) this.#remove(replica, 'lapsed')
  }

  /**
   * Renews bookings while the server lists their replicas, and forgets replicas that could not be followed for longer
   * than their bookings live. The next snapshot adds them again.
   */
  tick(now: number, awayMs: number): void {
    const ledger = this.#parts.ledger()
    if (ledger === null || this.#peers.size === 0) return
    if (awayMs > Math.max(this.#parts.leaseMs, ledger.leaseMs)) {
      for (const replica of this.#peers.keys()) this.#remove(replica, 'lapsed')
      return this.resync()
    }
    if (this.#kept !== null || awayMs > this.#parts.leaseMs || now - this.#renewedAt < ledger.leaseMs / 4) return
    this.#renewedAt = now
    for (const [replica, { open, kept }] of this.#peers) {
      let isComplete = true
      for (const key of open) if (!ledger.cluster.applyNow!(['progress', key, 0])) isComplete = false
      if (!isComplete && kept === null) void this.#read(replica)
    }
  }

  close(): void {
    this.unsubscribed()
    for (const peer of this.#peers.values()) this.#endAll(peer, 'abandoned')
  }

  #abandon(): void {
    clearTimeout(this.#retry)
    this.#kept = []
    for (const peer of this.#peers.values()) peer.kept = []
  }

  async #join(kept: string[]): Promise<void> {
    const { heartbeat, replica: own, rejected } = this.#parts
    try {
      const { number, present } = await heartbeat()
      if (this.#kept !== kept) return
      this.#kept = null
      this.#last = number
      this.#expected = 0
      for (const replica of this.#peers.keys()) if (!present.includes(replica)) this.#remove(replica, 'lapsed')
      for (const replica of present) if (replica !== own) this.#peerOf(replica).kept = []
      // Messages up to the number are part of the snapshot.
      for (const message of kept) if ((readMessage(message)?.number ?? 0) > number) this.#receive(message)
      for (const replica of present) if (this.#kept === null && this.#peers.has(replica)) await this.#read(replica)
    } catch (error) {
      if (this.#kept !== kept) return
      rejected(error as Error)
      this.#later()
    }
  }

  /** Reads the hash of a replica; its events since then are applied afterwards. Never rejects. */
  async #read(replica: string): Promise<void> {
    const peer = this.#peerOf(replica)
    const kept: PoolEvent[] = (peer.kept = [])
    const { rejected } = this.#parts
    try {
      const fields = await this.#hashOf(replica)
      const gone = new Set(peer.open)
      let count = 0
      const isStale = async () => (++count % TURN_EVENTS === 0 && (await nextTurn()), peer.kept !== kept)
      for (const event of readHash(fields, rejected)) {
        if (await isStale()) return
        if (event[0] === 'book') gone.delete(keyOf(event[2]))
        this.#apply(peer, event, 'before')
      }
      if (await isStale()) return
      for (const key of gone) this.#apply(peer, ['release', key, endedAs('abandoned')])
      for (; kept.length > 0; this.#apply(peer, kept.shift()!)) if (await isStale()) return
      peer.kept = null
      this.#retryMs = FIRST_RETRY_MS
    } catch (error) {
      if (peer.kept !== kept) return
      rejected(error as Error)
      this.#later()
    }
  }

  async #hashOf(replica: string): Promise<ReadonlyMap<string, string>> {
    const fields = new Map<string, string>()
    let cursor = '0'
    do {
      const { client } = this.#parts.control
      if (client === null) throw new Error('not connected')
      const page = await client.hScan(this.#parts.keys.open(replica), cursor, { COUNT: HASH_FIELDS })
      for (const { field, value } of page.entries) fields.set(field, value)
      cursor = String(page.cursor)
    } while (cursor !== '0')
    return fields
  }

  #later(): void {
    this.#abandon()
    this.#retry = setTimeout(() => this.resync(), this.#retryMs).unref()
    this.#retryMs = Math.min(LONGEST_RETRY_MS, 2 * this.#retryMs)
  }

  #receive(text: string): void {
    if (this.#kept !== null) return void this.#kept.push(text)
    const message = readMessage(text)
    if (message === null || message.number !== this.#last + 1) return this.resync()
    const { number, replica, events } = message
    this.#last = number
    if (replica === this.#parts.replica) return
    const isNew = !this.#peers.has(replica)
    const peer = this.#peerOf(replica)
    peer.last = number
    const all = readEvents(events, this.#parts.rejected)
    // It was taken for dead, so its earlier bookings are gone here.
    if (isNew && all[0]?.[0] !== 'begin') void this.#read(replica)
    for (const event of all)
      if (event[0] === 'leave') this.#remove(replica, 'abandoned')
      else if (event[0] === 'whole') void this.#read(replica)
      else if (peer.kept !== null) peer.kept.push(event)
      else this.#apply(peer, event)
  }

  #apply(peer: Peer, event: PoolEvent, elsewhere: 'now' | 'before' = 'now'): void {
    const ledger = this.#parts.ledger()
    switch (event[0]) {
      case 'book':
        if (ledger !== null) book(peer, ledger, event, elsewhere)
        return
      case 'leg_done':
      case 'first_token':
      case 'progress':
        if (peer.open.has(event[1])) ledger?.cluster.applyNow!(event)
        return
      case 'release':
        if (peer.open.delete(event[1])) ledger?.cluster.applyNow!(event)
        return
      case 'signal':
        return this.#parts.signalled(event[1], event[2])
      case 'registry':
        return void ledger?.cluster.registry?.(unpackedCall(event[1])).catch(this.#parts.rejected)
      case 'forgotten':
        return this.#parts.forget(event[1])
      case 'explain':
      case 'explained':
        return this.#parts.explain(event)
    }
  }

  #peerOf(replica: string): Peer {
    const known = this.#peers.get(replica)
    if (known !== undefined) return known
    const peer = new Peer()
    peer.last = this.#last
    this.#peers.set(replica, peer)
    this.#parts.joined(replica)
    return peer
  }

  #remove(replica: string, result: Result): void {
    const peer = this.#peers.get(replica)
    if (peer === undefined) return
    this.#peers.delete(replica)
    peer.kept = []
    const { size } = peer.open
    this.#endAll(peer, result)
    this.#parts.left(replica, size, result)
  }

  #endAll(peer: Peer, result: Result): void {
    for (const key of peer.open) this.#apply(peer, ['release', key, endedAs(result)])
  }
}

const keyOf = ({ id, attempt = 0 }: SentAdmission): string => bookingKey({ id, attempt })

function book(
  peer: Peer,
  { cluster, blockTokens }: PoolLedger,
  [, ofBlocks, asked, placement]: Extract<PoolEvent, readonly ['book', ...unknown[]]>,
  elsewhere: Resume['elsewhere'] & string,
): void {
  const admission = received(asked)
  peer.open.add(keyOf(asked))
  // Blocks of another size have other hashes; the booking counts as load only.
  const fitting = ofBlocks === blockTokens ? admission : { ...admission, blocks: NO_BLOCKS }
  cluster.applyNow!(['book', { admission: fitting, placement, firstTokenSeen: false, outputBlocks: 0, elsewhere }])
}
