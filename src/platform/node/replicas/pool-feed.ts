/** Exchange of one pool's bookings with the other replicas. */
import type { Decision, EngineSignal, Result } from '../../../core/contract/contract.ts'
import type { PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import type { Client, Link } from './connection.ts'
import { Following, type Heartbeat } from './following.ts'
import type { PoolEvent, RegistryChange } from './messages.ts'
import { sentCall } from './messages.ts'
import { OpenBookings } from './open-bookings.ts'
import type { PoolLedger } from './peer-bookings.ts'
import { poolKeys, Publishing } from './publishing.ts'

const ANSWER_MS = 1_000

export interface FeedParts {
  readonly replica: string
  readonly prefix: string
  readonly leaseMs: number
  readonly publishLink: Link
  readonly controlLink: Link
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** null: the pool is not configured here. */
  readonly ledger: () => PoolLedger | null
  readonly forget: (responseId: string) => void
  readonly hasEngine: (engine: string) => boolean
  readonly drained: (signal: Extract<EngineSignal, { readonly kind: 'drain' }>) => void
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  readonly rejected: (error: Error) => void
  readonly failed: (error: Error) => void
}

/** Decision that another replica is asked for. */
interface Question {
  readonly answer: (decision: Decision | null) => void
}

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly #publishing: Publishing
  readonly #parts: FeedParts
  readonly #run: (generation: number) => Promise<unknown>
  readonly #questions = new Map<string, Question>()
  #asked = 0
  /** Last heartbeat or snapshot that was answered; monotonic ms. */
  #confirmedAt = performance.now()

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    this.#parts = parts
    const { replica, leaseMs, controlLink, publishLink } = parts
    const keys = poolKeys(parts.prefix, cluster, pool)
    this.#publishing = new Publishing({ ...parts, keys, link: publishLink, all: () => this.open.all() })
    this.open = new OpenBookings(this.#publishing, parts.now)
    this.#run = (generation) =>
      controlLink.run('heartbeat', keys.tag, {
        keys: [keys.number, keys.open(replica), keys.present],
        arguments: [replica, String(generation), keys.channel, String(leaseMs)],
      })
    this.following = new Following({
      ...parts,
      keys,
      link: controlLink,
      heartbeat: () => this.#beat(),
      explain: (event) => void this.#explain(event),
      signalled: (signal, at) => this.#signalled(signal, at),
    })
  }

  /** Time since the server last listed the present replicas, in ms. */
  get awayMs(): number {
    return performance.now() - this.#confirmedAt
  }

  subscribe(client: Client): void {
    void this.following.subscribe(client)
  }

  publishing(isConnected: boolean): void {
    if (isConnected) this.#publishing.connected()
    else this.#publishing.disconnected()
  }

  /** Renews the presence of this replica. Rejects if the server does not answer. */
  async heartbeat(): Promise<void> {
    const generation = this.#publishing.registered
    const answer = await this.#beat()
    if (!answer.registered && generation > 0) this.#publishing.lost(generation)
    this.following.checked(answer)
  }

  /** Renews and expires bookings in the ledger. */
  tick(): void {
    this.open.expire()
    const { awayMs } = this
    void this.following.renew(performance.now(), awayMs)
    this.following.expire(awayMs)
  }

  reported(call: RegistryChange): void {
    this.#publishing.publish('p', '', () => ['registry', sentCall(call)])
  }

  forgotten(responseId: string): void {
    this.#publishing.publish('p', '', () => ['forgotten', responseId])
  }

  /** A decision of another replica; null: none has made it, or none answers in time. */
  async explain(id: string): Promise<Decision | null> {
    let missing = [...this.following.peers].length
    if (missing === 0) return null
    const question = `${this.#parts.replica}/${++this.#asked}`
    const answer = new Promise<Decision | null>((resolve) => {
      this.#questions.set(question, {
        answer: (decision) => {
          if (decision !== null || --missing === 0) resolve(decision)
        },
      })
    })
    this.#publishing.publish('p', '', () => ['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async close(): Promise<void> {
    this.open.close()
    this.following.close()
    await withTimeout(ANSWER_MS, this.#publishing.leave())
  }

  async #beat(): Promise<Heartbeat> {
    const answer = await this.#run(this.#publishing.registered)
    this.#confirmedAt = performance.now()
    const [registered, number, ...present] = answer as readonly (string | number)[]
    return { registered: Number(registered) === 1, number: Number(number), present: present.map(String) }
  }

  async #explain(event: Extract<PoolEvent, readonly ['explain' | 'explained', ...unknown[]]>): Promise<void> {
    const [kind, question] = event
    if (kind === 'explained') return this.#questions.get(question)?.answer(event[2])
    const decision = await Promise.resolve(this.#parts.ledger()?.cluster.explain(event[2])).catch(() => null)
    this.#publishing.publish('p', '', () => ['explained', question, decision ?? null])
  }

  #signalled(signal: EngineSignal, at: number): boolean {
    if (!this.#parts.hasEngine(signal.engine)) return false
    const before = this.open.isDrained(signal.engine)
    if (!this.open.received(signal, at)) return false
    if (signal.kind === 'drain' && signal.draining !== before) this.#parts.drained(signal)
    return true
  }
}
