/** Directory of stored responses for all I/O threads. Lives in the main thread. */
import type { StoredResponse, StoredResponses } from '../../../ports/stored-responses.ts'
import { withTimeout } from '../../../timeout.ts'
import type { ToMain, ToThread } from './messages.ts'

/** An I/O thread as the main thread calls it. */
interface CallableThread {
  call(message: ToThread): Promise<unknown>
}

type StoredResponseMessage = Extract<ToMain, readonly [`response_${string}`, ...unknown[]]>

export class StoredResponseHost {
  readonly #storedResponses: StoredResponses
  readonly #othersThan: (thread: number) => readonly CallableThread[]
  readonly #limitMs: number

  /** @param limitMs how long a lookup that finds nothing waits for a thread that does not answer. */
  constructor(
    storedResponses: StoredResponses,
    othersThan: (thread: number) => readonly CallableThread[],
    limitMs: number,
  ) {
    this.#storedResponses = storedResponses
    this.#othersThan = othersThan
    this.#limitMs = limitMs
  }

  /** Handles a message of the thread with number `from`. */
  receive(from: number, message: StoredResponseMessage): unknown {
    switch (message[0]) {
      case 'response_find':
        return this.#find(from, message[1], message[2])
      case 'response_keep':
        return this.#storedResponses.keep(message[1], message[2])
      case 'response_forget':
        return this.#storedResponses.forget(message[1])
    }
  }

  /**
   * A thread posts `response_keep` before a client can read the id, but this thread may receive messages of two threads
   * in another order than they were posted. Messages of one thread stay in order, so what a thread posted has arrived
   * when that thread has answered a question.
   */
  async #find(from: number, id: string, tenant: string): Promise<StoredResponse | null> {
    const found = await this.#storedResponses.find(id, tenant)
    if (found !== null) return found
    await Promise.all(this.#othersThan(from).map((thread) => withTimeout(this.#limitMs, thread.call(['sync']))))
    return this.#storedResponses.find(id, tenant)
  }
}
