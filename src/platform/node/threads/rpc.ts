import type { WorkerQuery } from '../../../api/worker-group.ts'
import type { Config } from '../../../config.ts'
import type { BookingEvent } from '../../../core/contract/legs.ts'
import type { Admission, Resume } from '../../../core/contract/contract.ts'
import type { Reservation, Settlement } from '../../../core/limits/key-limiter.ts'
import type { PoolMethod } from '../../../origin/cluster-client.ts'
import type { StoredResponse, PoolName, Ttft } from '../../../ports.ts'

/* Messages between threads. Plain data, because messages are cloned. */

export type TtftQuestion = Exclude<keyof Ttft, 'batchMs'>

/** Messages about pools. A pool is its number in the configuration, a booking its key (`bookingKey`). */
export type PoolMessage =
  | readonly [type: 'admit', pool: number, admission: Admission]
  | readonly [type: 'wait', pool: number, admission: Admission, waitedMs: number]
  | readonly [type: 'resume', pool: number, booking: Resume]
  | readonly [type: 'renew', pool: number, key: string]
  | readonly [type: 'event', pool: number, event: BookingEvent]
  | readonly [type: 'pool', pool: number, method: PoolMethod, args: readonly unknown[]]

/** Messages of an I/O thread to the main thread. */
export type ToMain =
  | PoolMessage
  | readonly [type: 'ttft', question: TtftQuestion, given: readonly unknown[]]
  | readonly [type: 'limit_reserve', reservation: Reservation]
  | readonly [type: 'limit_settle', settlement: Settlement]
  | readonly [type: 'response_find', id: string, tenant: string]
  | readonly [type: 'response_keep', id: string, stored: StoredResponse]
  | readonly [type: 'response_forget', id: string]
  | readonly [type: 'suspect', pool: number, engine: string]
  | readonly [type: 'siblings', question: WorkerQuery]
  /** The thread listens. `reports`: `host:port` of the listener for reports; null: none. */
  | readonly [type: 'listening', url: string, reports: string | null]

/** Messages of the main thread to an I/O thread. */
export type ToThread =
  /** New configuration. Answered when new requests use it. */
  | readonly [type: 'adopt', config: Config, pools: readonly PoolName[], sameFiles: boolean]
  /** When a newer configuration was refused, ms since the epoch; null: none was. */
  | readonly [type: 'config_refused', at: number | null]
  | readonly [type: 'sibling', question: WorkerQuery]
  /** Answered at once, after every message that was posted before. */
  | readonly [type: 'sync']
  /** Answered with `Drained` when all requests have ended. */
  | readonly [type: 'stop']
  | readonly [type: 'stop_now']

/** Calls with responses, and notifications, between two threads of this process. */

/** One end of a MessagePort, a Worker, or a thread's own parent port. */
export interface Wire {
  postMessage(batch: unknown): void
}

/** Handles a call or notification. The returned or resolved value is the response. */
export type RpcHandler<Message> = (message: Message) => unknown

/** [number, message, …]: above 0 a call, 0 a notification, below 0 the response to a call. */
type Batch = readonly unknown[]

/** A response that is an error. */
interface Broken {
  readonly broken: string
}

/** Batching delay of notifications that can wait, because waking a thread costs more than most messages. */
const LINGER_MS = 20

/**
 * Sends all messages of one turn of the event loop together, in order. No message is lost or reordered. When the other
 * thread exits, its pending calls reject.
 */
export class RpcChannel<Sent, Received> {
  readonly #wire: Wire
  readonly #receive: RpcHandler<Received>
  #waiting: unknown[] = []
  #questions = 0
  readonly #asked = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>()
  #flushing: NodeJS.Immediate | null = null
  #lingering: NodeJS.Timeout | null = null
  #closed: Error | null = null

  constructor(wire: Wire, onMessage: RpcHandler<Received>) {
    this.#wire = wire
    this.#receive = onMessage
  }

  /** Sends a notification. `canWait`: it need not go with this turn's message. */
  notify(message: Sent, canWait = false): void {
    if (this.#closed !== null) return
    this.#waiting.push(0, message)
    if (canWait) this.#lingering ??= setTimeout(() => this.flush(), LINGER_MS)
    else this.#flushSoon()
  }

  /** Sends a call. Rejects if the other side failed or exited. */
  call(message: Sent): Promise<unknown> {
    if (this.#closed !== null) return Promise.reject(this.#closed)
    const question = ++this.#questions
    this.#waiting.push(question, message)
    this.#flushSoon()
    return new Promise((resolve, reject) => this.#asked.set(question, { resolve, reject }))
  }

  /** Handles a message of the other side. */
  receive(batch: Batch): void {
    for (let at = 0; at < batch.length; at += 2) {
      const number = batch[at] as number
      if (number >= 0) this.#receiveAll(number, batch[at + 1] as Received)
      else this.#answered(-number, batch[at + 1])
    }
  }

  /** Sends pending messages now. */
  flush(): void {
    if (this.#flushing !== null) clearImmediate(this.#flushing)
    if (this.#lingering !== null) clearTimeout(this.#lingering)
    this.#flushing = null
    this.#lingering = null
    if (this.#waiting.length === 0) return
    const batch = this.#waiting
    this.#waiting = []
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
    this.#wire.postMessage(batch)
  }

  /** The other side exited: pending and later calls reject. */
  close(reason: Error): void {
    if (this.#closed !== null) return
    this.#closed = reason
    this.#waiting = []
    this.flush()
    for (const { reject } of this.#asked.values()) reject(reason)
    this.#asked.clear()
  }

  #flushSoon(): void {
    this.#flushing ??= setImmediate(() => this.flush())
  }

  #receiveAll(question: number, message: Received): void {
    let answer: unknown
    try {
      answer = this.#receive(message)
    } catch (error) {
      answer = Promise.reject(error)
    }
    if (!(answer instanceof Promise)) return this.#answer(question, answer)
    answer.then(
      (value) => this.#answer(question, value),
      (error: unknown) => this.#answer(question, { broken: String(error) } satisfies Broken),
    )
  }

  #answer(question: number, value: unknown): void {
    if (question === 0 || this.#closed !== null) return
    this.#waiting.push(-question, value)
    this.#flushSoon()
  }

  #answered(question: number, value: unknown): void {
    const asked = this.#asked.get(question)
    this.#asked.delete(question)
    if (isBroken(value)) asked?.reject(new Error(value.broken))
    else asked?.resolve(value)
  }
}

const isBroken = (value: unknown): value is Broken => typeof value === 'object' && value !== null && 'broken' in value
