/** How long a request may wait in the queue of its pool: for an engine while none can serve it, and for room. */
import type { Admission } from '../../contract/admission.ts'
import type { QueueConfig } from '../../contract/pool-config.ts'
import { isPoolFull, type Refusal } from '../../contract/refusal.ts'

/** Whether waiting for room may help a refused request. */
export const mayWaitForRoom = ({ attempt }: Admission, refusal: Refusal): boolean =>
  attempt === 0 && isPoolFull(refusal) && refusal.limit !== 'deadline'

/** Whether waiting for an engine may help. No engine has worked on the request yet. */
const mayAwaitEngine = ({ attempt, moved }: Admission, { away }: Refusal): boolean =>
  away !== undefined && (attempt === 0 || moved === true)

/** Longest wait for an engine, ms; 0: none. Who pauses a pool brings it back soon, so its queue is enough. */
export function engineWaitOf(
  { maxWaitMs, noEngineWaitMs = 0 }: QueueConfig,
  admission: Admission,
  refusal: Refusal,
): number {
  if (!mayAwaitEngine(admission, refusal)) return 0
  return refusal.away === 'paused' ? Math.max(maxWaitMs, noEngineWaitMs) : noEngineWaitMs
}

interface WaitStart {
  /** Limits when it came. A reload changes those of later ones. */
  readonly limits: QueueConfig
  /** Start of the wait on the clock of the queue, ms. */
  readonly since: number
  /** Time that it has waited before it came, ms. */
  readonly waitedMs: number
  /** Time after which its first token would be late, ms. */
  readonly ttftDeadlineMs: number
  /** Longest wait for room after which its first token can be in time, ms; 0: none, or unknown. */
  readonly longestWaitMs: number
  /** Longest wait for an engine, as found by the last try of any request, ms; null: an engine was there. */
  readonly engineWaitMs: number | null
}

/** Limit of the wait of one request. Each try in vain may change it. */
export class WaitLimit {
  readonly #limits: QueueConfig
  readonly #since: number
  readonly #deadlineAt: number
  #expiresAt: number
  /** Longest wait for an engine, ms; null: it has not waited for one, only for room. */
  #engineWaitMs: number | null
  /** An engine was there at its last try, so its time for room runs. */
  #isForRoom: boolean

  constructor({ limits, since, waitedMs, ttftDeadlineMs, longestWaitMs, engineWaitMs }: WaitStart) {
    const { maxWaitMs, noEngineWaitMs = 0 } = limits
    // Who has waited longer than for room has waited for an engine, and has time for room, too.
    const wasForEngine = waitedMs > maxWaitMs
    // Without engines nothing is known of the wait for room: the first try decides.
    const roomMs = Math.min(maxWaitMs, longestWaitMs > 0 ? longestWaitMs : noEngineWaitMs)
    this.#limits = limits
    this.#since = since
    this.#deadlineAt = since + ttftDeadlineMs
    this.#engineWaitMs = wasForEngine ? Math.max(maxWaitMs, noEngineWaitMs) : engineWaitMs
    this.#isForRoom = this.#engineWaitMs === null
    this.#expiresAt = since + Math.min(ttftDeadlineMs, (this.#engineWaitMs ?? roomMs) + (wasForEngine ? maxWaitMs : 0))
  }

  /** End of the wait on the clock of the queue, ms. */
  get expiresAt(): number {
    return this.#expiresAt
  }

  /** Longest wait for an engine, ms; null: an engine is there, and it waits for room. */
  get engineWaitMs(): number | null {
    return this.#isForRoom ? null : this.#engineWaitMs
  }

  /**
   * Returns whether the request, which was tried in vain, waits on. An engine that returns gives it the usual time for
   * room.
   * @param elapsedMs now on the clock of the queue
   */
  goesOn(admission: Admission, refusal: Refusal, elapsedMs: number): boolean {
    const engineWaitMs = engineWaitOf(this.#limits, admission, refusal)
    if (engineWaitMs > 0) {
      this.#engineWaitMs = engineWaitMs
      this.#isForRoom = false
      this.#expiresAt = Math.min(this.#deadlineAt, this.#since + engineWaitMs)
      return true
    }
    if (this.#engineWaitMs === null) return mayWaitForRoom(admission, refusal)
    if (!mayWaitForRoom({ ...admission, attempt: 0 }, refusal)) return false
    if (this.#isForRoom) return true
    const { maxWaitMs } = this.#limits
    const latestAt = this.#since + this.#engineWaitMs + maxWaitMs
    this.#isForRoom = true
    this.#expiresAt = Math.min(this.#deadlineAt, latestAt, elapsedMs + maxWaitMs)
    return true
  }
}
