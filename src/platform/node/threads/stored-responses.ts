/** Directory of stored responses for all I/O threads. Lives in the main thread. */
import type { StoredResponse, StoredResponses } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import type { ToMain, ToThread } from './rpc.ts'

/** An I/O thread as the main thread calls it. */
export interface AskedThread {
  call(word: ToThread): Promise<unknown>
}

type Word = Extract<ToMain, readonly [`held_${string}`, ...unknown[]]>

export class StoredResponseHost {
  readonly #held: StoredResponses
  readonly #othersThan: (thread: number) => readonly AskedThread[]
  readonly #limitMs: number

  /** @param limitMs how long a lookup that finds nothing waits for a thread that does not answer. */
  constructor(held: StoredResponses, othersThan: (thread: number) => readonly AskedThread[], limitMs: number) {
    this.#held = held
    this.#othersThan = othersThan
    this.#limitMs = limitMs
  }

  /** Handles a message of the thread with number `from`. */
  receive(from: number, word: Word): unknown {
    switch (word[0]) {
      case 'held_find':
        return this.#find(from, word[1], word[2])
      case 'held_keep':
        return this.#held.keep(word[1], word[2])
      case 'held_forget':
        return this.#held.forget(word[1])
    }
  }

  /**
   * A thread posts `held_keep` before a client can read the id, but this thread may receive messages of two threads in
   * another order than they were posted. Messages of one thread stay in order, so what a thread posted has arrived when
   * that thread has answered a question.
   */
  async #find(from: number, id: string, tenant: string): Promise<StoredResponse | null> {
    const found = await this.#held.find(id, tenant)
    if (found !== null) return found
    await Promise.all(this.#othersThan(from).map((thread) => withTimeout(this.#limitMs, thread.call(['sync']))))
    return this.#held.find(id, tenant)
  }
}
