/** Calls with responses, and notifications, between two threads of this process. */

/** One end of a MessagePort, a Worker, or a thread's own parent port. */
interface MessageTarget {
  postMessage(batch: unknown): void
}

/** Handles a call or notification. The returned or resolved value is the response. @testing */
export type RpcHandler<Message> = (message: Message) => unknown

/** [number, message, …]: above 0 a call, 0 a notification, below 0 the response to a call. */
type Batch = readonly unknown[]

/** A response that is an error. */
interface ErrorAnswer {
  readonly broken: string
}

/** Batching delay of notifications that can wait, because waking a thread costs more than most messages. */
const LINGER_MS = 20

/**
 * Sends all messages of one turn of the event loop together, in order. No message is lost or reordered. When the other
 * thread exits, its pending calls reject.
 */
export class RpcChannel<Sent, Received> {
  readonly #port: MessageTarget
  readonly #receive: RpcHandler<Received>
  #waiting: unknown[] = []
  #calls = 0
  readonly #pending = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>()
  #flushing: NodeJS.Immediate | null = null
  #lingering: NodeJS.Timeout | null = null
  #closed: Error | null = null

  constructor(port: MessageTarget, onMessage: RpcHandler<Received>) {
    this.#port = port
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
    const number = ++this.#calls
    this.#waiting.push(number, message)
    this.#flushSoon()
    return new Promise((resolve, reject) => this.#pending.set(number, { resolve, reject }))
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
    this.#port.postMessage(batch)
  }

  /** The other side exited: pending and later calls reject. */
  close(reason: Error): void {
    if (this.#closed !== null) return
    this.#closed = reason
    this.#waiting = []
    this.flush()
    for (const { reject } of this.#pending.values()) reject(reason)
    this.#pending.clear()
  }

  #flushSoon(): void {
    this.#flushing ??= setImmediate(() => this.flush())
  }

  #receiveAll(number: number, message: Received): void {
    let answer: unknown
    try {
      answer = this.#receive(message)
    } catch (error) {
      answer = Promise.reject(error)
    }
    if (!(answer instanceof Promise)) return this.#answer(number, answer)
    answer.then(
      (value) => this.#answer(number, value),
      (error: unknown) => this.#answer(number, { broken: String(error) } satisfies ErrorAnswer),
    )
  }

  #answer(number: number, value: unknown): void {
    if (number === 0 || this.#closed !== null) return
    this.#waiting.push(-number, value)
    this.#flushSoon()
  }

  #answered(number: number, value: unknown): void {
    const pending = this.#pending.get(number)
    this.#pending.delete(number)
    if (isErrorAnswer(value)) pending?.reject(new Error(value.broken))
    else pending?.resolve(value)
  }
}

const isErrorAnswer = (value: unknown): value is ErrorAnswer =>
  typeof value === 'object' && value !== null && 'broken' in value
