/** Writes the open bookings of this replica in one pool to the server and publishes each change. */
import type { Link } from './connection.ts'
import type { PoolEvent } from './messages.ts'
import type { OpenBookings, Operation, Publisher } from './open-bookings.ts'

/** A whole publication is cut into pieces, so that no command blocks the server for long. */
const PIECE_CHARS = 65_536
/** Unanswered pieces of a whole publication. */
const WINDOW_CHARS = 1_048_576
/** Unanswered events. Beyond it (a slow or frozen server) turns are dropped; a whole publication follows. */
const LONGEST_QUEUE_CHARS = 8_388_608
const RETRY_MS = 100

/** Names of one pool on the server. All have the same hash tag, so they lie in one slot of a cluster. */
export interface PoolKeys {
  readonly tag: string
  readonly number: string
  readonly present: string
  readonly channel: string
  readonly open: (replica: string) => string
}

export function poolKeys(prefix: string, cluster: string, pool: string): PoolKeys {
  const tag = `${prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
  return {
    tag,
    number: `${tag}:number`,
    present: `${tag}:replicas`,
    channel: `${tag}:events`,
    open: (replica) => `${tag}:open:${replica}`,
  }
}

export interface PublishingParts {
  readonly replica: string
  readonly keys: PoolKeys
  readonly link: Link
  readonly leaseMs: number
  readonly all: () => ReturnType<OpenBookings['all']>
  readonly rejected: (error: Error) => void
}

/**
 * After anything that failed, the whole is published again under the next generation; the scripts refuse commands of an
 * earlier one. A failed turn is never sent again: later turns may have overtaken it.
 */
export class Publishing implements Publisher {
  readonly #parts: PublishingParts
  #isConnected = false
  /** A generation has begun. */
  #isAccepting = false
  #generation = 0
  /** The server has acknowledged this generation. */
  #registered = 0
  /** Number of the last message of this replica. */
  #last = 0
  #turn: string[] = []
  #turnChars = 0
  #flushing: NodeJS.Immediate | null = null
  #unansweredChars = 0
  /** Turns were dropped: the whole follows once the server has answered everything. */
  #hasDropped = false
  #retry: NodeJS.Timeout | undefined
  #drained: (() => void) | null = null

  constructor(parts: PublishingParts) {
    this.#parts = parts
  }

  /** Generation that heartbeats renew; 0: none is registered. */
  get registered(): number {
    return this.#registered
  }

  connected(): void {
    this.#isConnected = true
    this.#restart(0)
  }

  disconnected(): void {
    this.#isConnected = false
    this.#generation += 1
    this.#registered = 0
    this.#drop()
    clearTimeout(this.#retry)
    this.#drained?.()
  }

  /** The server does not have what was published under this generation. */
  lost(generation: number): void {
    if (generation === this.#generation && this.#isConnected) this.#restart(RETRY_MS)
  }

  publish(operation: Operation, field: string, event: () => PoolEvent): void {
    if (!this.#isAccepting || this.#hasDropped) return
    this.#add(operation, field, JSON.stringify(event()))
    this.#flushing ??= setImmediate(() => this.#flush())
  }

  /** Removes this replica, behind everything published before. Resolves when the server has answered. */
  async leave(): Promise<void> {
    this.#flush()
    clearTimeout(this.#retry)
    const { replica, keys, link } = this.#parts
    const generation = this.#generation++
    if (!this.#isConnected) return
    this.#isConnected = false
    this.#isAccepting = false
    await link.run('leave', keys.tag, this.#script([replica, String(generation), keys.channel, '0']))
  }

  #add(operation: Operation, field: string, event: string): void {
    this.#turn.push(operation, field, event)
    this.#turnChars += field.length + event.length
    if (this.#turnChars >= PIECE_CHARS) this.#flush()
  }

  #flush(): void {
    if (this.#flushing !== null) clearImmediate(this.#flushing)
    this.#flushing = null
    if (this.#turn.length === 0) return
    const [turn, chars] = [this.#turn, this.#turnChars]
    this.#turn = []
    this.#turnChars = 0
    if (this.#unansweredChars > LONGEST_QUEUE_CHARS) this.#hasDropped = true
    else this.#send(turn, chars)
  }

  #send(turn: readonly string[], chars: number): void {
    const { replica, keys, link } = this.#parts
    const generation = this.#generation
    const given = [replica, String(generation), keys.channel, String(this.#last), ...turn]
    this.#await(generation, chars, link.run('publish', keys.tag, this.#script(given)))
  }

  #await(generation: number, chars: number, answer: Promise<unknown>): void {
    this.#unansweredChars += chars
    answer.then(
      (number) => this.#answered(generation, chars, Number(number)),
      (error: Error) => {
        if (generation === this.#generation) this.#parts.rejected(error)
        this.#answered(generation, chars, 0)
      },
    )
  }

  #answered(generation: number, chars: number, number: number): void {
    this.#unansweredChars -= chars
    if (this.#unansweredChars < WINDOW_CHARS) this.#drained?.()
    if (generation !== this.#generation) return
    if (number > 0) this.#last = number
    if (number === 0 || (this.#hasDropped && this.#unansweredChars === 0)) this.#restart(RETRY_MS)
  }

  /** Publishes the whole under a new generation. Nothing is published until then. */
  #restart(delayMs: number): void {
    const generation = ++this.#generation
    this.#registered = 0
    this.#drop()
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.#publishAll(generation), delayMs).unref()
  }

  #drop(): void {
    this.#isAccepting = false
    this.#turn = []
    this.#turnChars = 0
  }

  async #publishAll(generation: number): Promise<void> {
    const { replica, keys, link, leaseMs, all } = this.#parts
    if (generation !== this.#generation) return
    this.#isAccepting = true
    this.#hasDropped = false
    const given = [replica, String(generation), keys.channel, String(leaseMs), String(this.#last)]
    const begun = link.run('begin', keys.tag, this.#script(given))
    begun.then(
      () => {
        if (generation === this.#generation) this.#registered = generation
      },
      () => undefined,
    )
    this.#await(generation, 0, begun)
    for (const [operation, field, event] of all()) {
      this.#add(operation, field, JSON.stringify(event))
      if (this.#turn.length > 0) continue
      await this.#windowOpens()
      if (generation !== this.#generation) return
    }
    this.#add('p', '', '["end"]')
    this.#flush()
  }

  /** Streams of this process are served between two pieces, too. */
  async #windowOpens(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#isConnected && this.#unansweredChars >= WINDOW_CHARS)
      await new Promise<void>((resolve) => (this.#drained = resolve))
    this.#drained = null
  }

  #script(given: string[]): { readonly keys: string[]; readonly arguments: string[] } {
    const { replica, keys } = this.#parts
    return { keys: [keys.number, keys.open(replica), keys.present], arguments: given }
  }
}
