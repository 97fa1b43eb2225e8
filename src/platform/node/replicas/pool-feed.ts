/** Exchange of one pool's bookings with the other replicas. */
import { type Decision, endedAs, type Result, type EngineSignal } from '../../../core/contract/contract.ts'
import type { PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import { OpenBookings } from './open-bookings.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Client } from './connection.ts'
import {
  type BookEvent,
  type PoolEvent,
  readEvents,
  readHash,
  readMessage,
  received,
  type SentAdmission,
  base64,
  lanes,
  type NewsEvent,
} from './messages.ts'
import type { PoolParts, Field } from './pool-parts.ts'
import { SCRIPTS } from './scripts.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'

const LEAVE_MS = 1_000

export type FeedParts = Omit<FollowingParts & NewsParts, 'keys' | 'open' | 'news'> & { readonly prefix: string }

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly news: PoolNews

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const open = (replica: string) => `${tag}:open:${replica}`
    const keys = { number: `${tag}:number`, present: `${tag}:replicas`, channel: `${tag}:events`, open }
    this.news = new PoolNews({ ...parts, keys }, () => this.open)
    this.open = new OpenBookings({ ...parts, keys }, () => this.news.fields())
    this.following = new Following({ ...parts, keys, open: this.open, news: this.news })
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.open.tick()
    this.following.tick(performance.now())
  }

  /** A decision of another replica; null: there is none. */
  async explain(id: string): Promise<Decision | null> {
    return this.following.peers().next().done === true ? null : this.news.explain(id)
  }

  async close(): Promise<void> {
    this.following.unsubscribed()
    await withTimeout(LEAVE_MS, this.open.leave())
  }
}

/* Reads the open bookings of all other replicas in one pool: the hash of each, then every message. */

/** Fields of a hash read by one command: a few hundred KiB of long prompts. */
const HASH_FIELDS = 64
/** Events of a hash applied in one turn of the event loop. */
const TURN_EVENTS = 32
const NO_BLOCKS = new Uint32Array(0)

interface FollowingParts extends PoolParts {
  readonly open: OpenBookings
  readonly news: PoolNews
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  /** The subscription does not work and is made again on a new connection. */
  readonly failed: (error: Error) => void
}

/** Another replica. */
class Peer {
  /** Keys of its open bookings. */
  readonly open = new Set<string>()
  /** Number of its last message. */
  last: number
  /** Events until its hash is read; null: it is. Another list: it is read again. */
  kept: PoolEvent[] | null = []

  constructor(last: number) {
    this.last = last
  }
}

class Following {
  readonly #parts: FollowingParts
  readonly #peers = new Map<string, Peer>()
  #isSubscribed = false
  #isReading = false
  /** Number of the last message; null: not known yet. */
  #last: number | null = null
  /** Number of the last message at the previous heartbeat; null: the server has not listed the replicas yet. */
  #expected: number | null = null
  /** Last heartbeat that was answered; monotonic ms. */
  #confirmedAt = performance.now()
  #renewedAt = 0

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** Other replicas with the number of their bookings. `isCurrent`: no message is missing. */
  *peers(): Generator<{ readonly id: string; readonly isCurrent: boolean; readonly bookings: number }> {
    for (const [id, { open, kept }] of this.#peers)
      yield { id, isCurrent: this.#isSubscribed && kept === null, bookings: open.size }
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

  /** Reads all replicas again. */
  resync(): void {
    if (!this.#isSubscribed) return
    this.#last = this.#expected = null
    for (const peer of this.#peers.values()) peer.kept = []
    this.heartbeat().catch(this.#parts.rejected)
  }

  /** Time since the server last listed the present replicas, in ms. */
  get awayMs(): number {
    return performance.now() - this.#confirmedAt
  }

  /** Renews the presence of this replica and checks that of the others. Rejects if the server does not answer. */
  async heartbeat(): Promise<void> {
    const { replica, keys, leaseMs, control, open } = this.#parts
    const { generation, last } = open.written
    const given = [replica, String(generation), keys.channel, String(leaseMs), String(last)]
    const answer = await control.run(SCRIPTS.heartbeat, [keys.number, keys.open(replica), keys.present], given)
    this.#confirmedAt = performance.now()
    const [isRegistered, number, ...present] = answer as readonly (string | number)[]
    if (generation > 0 && isRegistered === 0) open.lost(generation)
    if (this.#isSubscribed) this.#check(Number(number), new Set(present.map(String)))
  }

  /** Renews bookings while their replicas are followed. Otherwise they lapse in the ledger. */
  tick(now: number): void {
    const { ledger, leaseMs, pool } = this.#parts
    if (!this.#isSubscribed || this.awayMs > leaseMs || now - this.#renewedAt < (pool()?.leaseMs ?? Infinity) / 4)
      return
    this.#renewedAt = now
    for (const peer of this.#peers.values())
      for (const key of peer.open) if (!ledger.applyNow!(['progress', key, 0])) peer.kept ??= []
    void this.#readAll()
  }

  /** Removes replicas whose presence has expired, detects lost messages, and reads what has not been read. */
  #check(number: number, present: ReadonlySet<string>): void {
    if ((this.#last ?? Infinity) < (this.#expected ?? 0))
      return this.#parts.failed(new Error('messages of the subscription are missing'))
    for (const [replica, { last }] of this.#peers)
      if (last <= number && !present.has(replica)) this.#remove(replica, 'lapsed')
    this.#last ??= number
    if (this.#expected === null)
      for (const replica of present) if (replica !== this.#parts.replica) this.#peerOf(replica)
    this.#expected = this.#expected === null ? 0 : number
    void this.#readAll()
  }

  /** One after the other. After a failure the next heartbeat repeats it. */
  async #readAll(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    const unread = () => [...this.#peers].find(([, { kept }]) => kept !== null)
    try {
      for (let next = unread(); next !== undefined; next = unread()) await this.#read(...next)
    } catch (error) {
      this.#parts.rejected(error as Error)
    }
    this.#isReading = false
  }

  async #read(replica: string, peer: Peer): Promise<void> {
    const kept = peer.kept!
    let count = 0
    const isStale = async () => (++count % TURN_EVENTS === 0 && (await nextTurn()), peer.kept !== kept)
    const fields = await this.#hashOf(replica)
    const gone = new Set(peer.open)
    for (const event of readHash(fields, this.#parts.rejected)) {
      if (await isStale()) return
      if (event[0] === 'book') gone.delete(keyOf(event[2]))
      this.#apply(peer, event, 'before')
    }
    if (await isStale()) return
    for (const key of gone) this.#end(peer, key, 'abandoned')
    for (const event of kept) {
      if (await isStale()) return
      this.#apply(peer, event)
    }
    if (peer.kept === kept) peer.kept = null
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

  #receive(text: string): void {
    const message = readMessage(text)
    if (message === null) return
    const { number, replica, events } = message
    if (number > (this.#last ?? number) + 1) this.resync()
    this.#last = Math.max(this.#last ?? 0, number)
    if (replica === this.#parts.replica) return
    const peer = this.#peerOf(replica)
    peer.last = number
    for (const event of readEvents(events, this.#parts.rejected))
      if (event[0] === 'leave') this.#remove(replica, 'abandoned')
      else if (event[0] === 'whole' || (event[0] === 'begin' && peer.kept !== null)) peer.kept = []
      else if (peer.kept === null) this.#apply(peer, event)
      else peer.kept.push(event)
    if (peer.kept !== null) void this.#readAll()
  }

  #apply(peer: Peer, event: PoolEvent, elsewhere: 'now' | 'before' = 'now'): void {
    const { ledger } = this.#parts
    switch (event[0]) {
      case 'book':
        return this.#book(peer, event, elsewhere)
      case 'leg_done':
      case 'first_token':
      case 'progress':
        if (peer.open.has(event[1])) ledger.applyNow!(event)
        return
      case 'release':
        if (peer.open.delete(event[1])) ledger.applyNow!(event)
        return
      case 'begin':
      case 'whole':
      case 'leave':
        return
      default:
        this.#parts.news.received(event)
    }
  }

  #book(peer: Peer, [, ofBlocks, asked, placement]: BookEvent, elsewhere: 'now' | 'before'): void {
    const { ledger, pool } = this.#parts
    const blockTokens = pool()?.blockTokens
    if (blockTokens === undefined) return
    const admission = received(asked)
    peer.open.add(keyOf(asked))
    // Blocks of another size have other hashes; the booking counts as load only.
    const fitting = ofBlocks === blockTokens ? admission : { ...admission, blocks: NO_BLOCKS }
    ledger.applyNow!(['book', { admission: fitting, placement, firstTokenSeen: false, outputBlocks: 0, elsewhere }])
  }

  #peerOf(replica: string): Peer {
    const known = this.#peers.get(replica)
    if (known !== undefined) return known
    const peer = new Peer(this.#last ?? 0)
    this.#peers.set(replica, peer)
    this.#parts.joined(replica)
    return peer
  }

  #remove(replica: string, result: Result): void {
    const peer = this.#peers.get(replica)
    if (peer === undefined) return
    this.#peers.delete(replica)
    // A reader of its hash ends.
    peer.kept = []
    const { size } = peer.open
    for (const key of peer.open) this.#end(peer, key, result)
    this.#parts.left(replica, size, result)
  }

  #end(peer: Peer, key: string, result: Result): void {
    this.#apply(peer, ['release', key, endedAs(result)])
  }
}

const keyOf = ({ id, attempt = 0 }: SentAdmission): string => bookingKey({ id, attempt })

/* What replicas tell each other about one pool beside bookings: drains, reports of LMCache servers, decisions. */

const ANSWER_MS = 1_000

type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>
/** Calls that change a registry; queries are answered locally. */
type RegistryChange = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>

interface NewsParts extends PoolParts {
  readonly drained: (signal: Drain) => void
  readonly forget: (responseId: string) => void
}

class PoolNews {
  readonly #parts: NewsParts
  readonly #open: () => OpenBookings
  /** Latest drain or undrain of each engine, by whichever replica it was set. */
  readonly #drains = new Map<string, { readonly signal: Drain; readonly at: number }>()
  /** Decisions that other replicas are asked for. */
  readonly #questions = new Map<string, (decision: Decision) => void>()
  #asked = 0

  /** @param open publishes the news */
  constructor(parts: NewsParts, open: () => OpenBookings) {
    this.#parts = parts
    this.#open = open
  }

  /** Drains for replicas that join later. */
  *fields(): Generator<Field> {
    for (const [engine, { signal, at }] of this.#drains) yield [`s${engine}`, ['signal', signal, at]]
  }

  /** An event of another replica. */
  received(event: NewsEvent): void {
    const { ledger, rejected, forget } = this.#parts
    if (event[0] === 'signal') this.#signalled(event[1], event[2])
    else if (event[0] === 'registry') void ledger.registry?.(unpackedCall(event[1])).catch(rejected)
    else if (event[0] === 'forgotten') forget(event[1])
    else if (event[0] === 'explained') this.#questions.get(event[1])?.(event[2])
    else void this.#answer(event[1], event[2])
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  signalled(signal: EngineSignal): void {
    const now = this.#parts.now()
    if (signal.kind === 'excused') this.#open().announce(['signal', signal, now])
    if (signal.kind === 'drain') this.#keep(signal, Math.max(now, 1 + (this.#drains.get(signal.engine)?.at ?? 0)))
  }

  /** A report of an LMCache server to this replica. */
  registry(call: RegistryCall): void {
    if (call.kind !== 'list' && call.kind !== 'lookup') this.#open().announce(['registry', packedCall(call)])
  }

  /** An engine that was removed and added again is a new one. */
  configured(engines: readonly string[]): void {
    const gone = [...this.#drains.keys()].filter((engine) => !engines.includes(engine))
    for (const engine of gone) this.#drains.delete(engine)
    if (gone.length > 0) this.#open().rewrite()
  }

  /** A decision of another replica; null: none has made it, or it does not answer in time. */
  async explain(id: string): Promise<Decision | null> {
    const question = `${this.#parts.replica}/${++this.#asked}`
    const answer = new Promise<Decision>((resolve) => void this.#questions.set(question, resolve))
    this.#open().announce(['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async #answer(question: string, id: string): Promise<void> {
    const decision = await this.#parts.ledger.explain(id).catch(() => null)
    if (decision) this.#open().announce(['explained', question, decision])
  }

  #signalled(signal: EngineSignal, at: number): void {
    const { ledger, pool, drained, rejected } = this.#parts
    if (!pool()?.engines.some(({ id }) => id === signal.engine)) return
    if (signal.kind === 'drain') {
      const before = this.#drains.get(signal.engine)?.signal.draining ?? false
      if (!this.#keep(signal, at)) return
      if (signal.draining !== before) drained(signal)
    }
    ledger.observe([signal]).catch(rejected)
  }

  /** Keeps a drain of any replica and publishes it for those that join later. false: a later one holds. */
  #keep(signal: Drain, at: number): boolean {
    const known = this.#drains.get(signal.engine)
    // Of two at the same time, all replicas keep the drain.
    if (known !== undefined && (at < known.at || (at === known.at && (!signal.draining || known.signal.draining))))
      return false
    this.#drains.set(signal.engine, { signal, at })
    this.#open().publish('s', `s${signal.engine}`, ['signal', signal, at])
    return true
  }
}

export const packedCall = (call: RegistryChange): string =>
  JSON.stringify(call, (_name, value: unknown) =>
    value instanceof Uint32Array ? { lanes: base64(value) } : value instanceof Uint8Array ? [...value] : value,
  )

export const unpackedCall = (json: string): RegistryChange =>
  JSON.parse(json, (name, value: { readonly lanes: string }) =>
    name === 'keys' && typeof value.lanes === 'string'
      ? lanes(value.lanes)
      : name === 'ranks' && Array.isArray(value)
        ? Uint8Array.from(value)
        : value,
  ) as RegistryChange
