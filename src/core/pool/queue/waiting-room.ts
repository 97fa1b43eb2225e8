import type { Admission } from '../../contract/admission.ts'
import type { Usage } from '../../contract/outcome.ts'
import type { QueueConfig } from '../../contract/pool-config.ts'
import { isPoolFull, type Refusal } from '../../contract/refusal.ts'
import type { AdmissionResult } from '../admission-result.ts'
import { bookingKey } from '../bookings.ts'
import { behindOthers, leftQueue, queueClosed, queueFull } from '../refusals.ts'
import { noQueue, type PoolQueue } from './pool-queue.ts'
import { type RequestDemand, expectedWork, workOf } from './request-demand.ts'
import { type TryResult, type WaitingItem, WaitingQueue } from './waiting-queue.ts'

/** Requests placed in one wake-up; the next one continues. */
const MAX_PLACED = 16

/** Requests that fail to get a place in one wake-up, because each costs a ranking. */
const MAX_TRIES = 4

/** Requests at the end of their wait that are looked at in one wake-up, for the same reason. */
const MAX_LAST_LOOKS = 256

/** Interval at which hosts call `wake` while requests wait, ms: predictions change without events, and waits end. */
export const WAKE_MS = 50

/** Longest step of the clock that counts as waiting, ms: if it is longer, the clock was set. */
const MAX_STEP_MS = 1_000

/** How a request waits. */
export interface WaitTerms {
  readonly now: number
  /** Time that it has waited elsewhere before, ms. */
  readonly waitedMs: number
  /** Called once. */
  readonly done: (answer: AdmissionResult) => void
}

interface Waiter extends WaitingItem {
  readonly admission: Admission
  /** Time on the clock of the queue, ms. */
  readonly since: number
  /** Limits when it came. A reload changes those of later ones. */
  readonly limits: QueueConfig
  /** Time on the clock of the queue, ms. */
  expiresAt: number
  /** Longest wait for an engine, ms; null: it has not waited for one, only for room. */
  engineWaitMs: number | null
  /** An engine was there at its last try, so its time for room runs. */
  isForRoom: boolean
  readonly done: (answer: AdmissionResult) => void
  /** Refusal of its last attempt. */
  refusal: Refusal
}

/** A request that has waited and runs. */
interface PlacedRequest {
  readonly key: Pick<WaitingItem, 'tenant' | 'session' | 'weight'>
  readonly cachedTokens: number
  /** Work that its key is charged. */
  readonly work: number
}

export interface WaitingRoomParts {
  readonly demandOf: (admission: Admission, now: number) => RequestDemand
  /** Places a request that has waited for `waitedMs`. */
  readonly place: (admission: Admission, now: number, waitedMs: number) => AdmissionResult
  /** Why no engine could serve the request if there was room. null: one could. */
  readonly lacking: (admission: Admission, now: number) => Refusal | null
  /** Predicted cached tokens of a placed request, by its booking key. */
  readonly cachedTokens: (key: string) => number
  /** Counts a request that has waited in vain, and returns its answer. */
  readonly refused: (admission: Admission, refusal: Refusal, now: number) => AdmissionResult
}

/** Whether waiting for room may help a refused request. */
const mayWait = ({ attempt, hedge = false }: Admission, refusal: Refusal): boolean =>
  attempt === 0 && !hedge && isPoolFull(refusal) && refusal.limit !== 'deadline'

/** Whether waiting for an engine may help. No engine has worked on the request yet. */
const mayAwaitEngine = ({ attempt, moved, hedge = false }: Admission, { away }: Refusal): boolean =>
  away !== undefined && !hedge && (attempt === 0 || moved === true)

/** Longest wait for an engine, ms; 0: none. Who pauses a pool brings it back soon, so its queue is enough. */
function engineWaitOf({ maxWaitMs, noEngineWaitMs = 0 }: QueueConfig, admission: Admission, refusal: Refusal): number {
  if (!mayAwaitEngine(admission, refusal)) return 0
  return refusal.away === 'paused' ? Math.max(maxWaitMs, noEngineWaitMs) : noEngineWaitMs
}

/** Requests of a pool that wait for room: each is answered once. Only pools with a queue have it. */
export class WaitingRoom implements PoolQueue {
  readonly #queue = new WaitingQueue<Waiter>()
  readonly #running = new Map<string, PlacedRequest>()
  readonly #parts: WaitingRoomParts
  #limits: QueueConfig
  #isAwake = false
  /** Longest wait for an engine of the request that was tried last, ms; 0: it waits for room. */
  #lastEngineWaitMs = 0
  /** Clock of the queue, which runs while requests wait: waits do not end together when the host's clock is set. */
  #clock = { at: 0, elapsedMs: 0 }

  constructor(parts: WaitingRoomParts, limits: QueueConfig) {
    this.#parts = parts
    this.#limits = limits
  }

  get size(): number {
    return this.#queue.size
  }

  takes(admission: Admission, refusal: Refusal, now: number): boolean {
    if (engineWaitOf(this.#limits, admission, refusal) > 0) return true
    if (!mayWait(admission, refusal)) return false
    return this.#queue.get(bookingKey(admission)) !== undefined || this.#isOfUse(admission, now)
  }

  /** Others are late whether they wait or not, and delay those that are not. */
  #isOfUse(admission: Admission, now: number): boolean {
    return this.#parts.demandOf(admission, now).longestWaitMs > 0
  }

  configure(limits: QueueConfig, now: number): void {
    this.#limits = limits
    this.wake(now)
  }

  /** Answers the waiting requests, because the pool no longer has a queue. */
  close(): void {
    const now = this.#clock.at
    for (const waiter of this.#queue.all())
      this.#refuse(waiter, this.#parts.lacking(waiter.admission, now) ?? queueClosed, now)
  }

  oldestMs(now: number): number {
    const elapsedMs = this.#elapsedMs(now)
    return this.#queue.all().reduce((longest, { since }) => Math.max(longest, elapsedMs - since), 0)
  }

  holdsBack(admission: Admission, now: number): boolean {
    const { requestClass = 'standard', attempt, hedge = false } = admission
    return attempt === 0 && !hedge && this.#queue.waits(requestClass) && this.#isOfUse(admission, now)
  }

  join(admission: Admission, { now, waitedMs, done }: WaitTerms): void {
    const id = bookingKey(admission)
    // Its caller lost the connection and asks again.
    this.leave(id)
    const { maxRequests, maxWaitMs, noEngineWaitMs = 0 } = this.#limits
    if (this.size >= maxRequests) return done(this.#parts.refused(admission, queueFull, now))
    const { tenant, session, requestClass = 'standard', keyWeight: weight = 1, ttftDeadlineMs = Infinity } = admission
    if (this.size === 0) this.#clock.at = now
    const { work, longestWaitMs } = this.#parts.demandOf(admission, now)
    const since = this.#elapsedMs(now) - waitedMs
    // Who has waited longer than for room has waited for an engine, and has time for room, too.
    const wasForEngine = waitedMs > maxWaitMs
    const engineWaitMs = wasForEngine ? Math.max(maxWaitMs, noEngineWaitMs) : this.#lastEngineWaitMs || null
    // Without engines nothing is known of the wait for room: the first try decides.
    const roomMs = Math.min(maxWaitMs, longestWaitMs > 0 ? longestWaitMs : noEngineWaitMs)
    const waitMs = (engineWaitMs ?? roomMs) + (wasForEngine ? maxWaitMs : 0)
    const order = { id, tenant, session, requestClass, weight, work }
    this.#queue.add({
      ...order,
      admission,
      since,
      limits: this.#limits,
      expiresAt: since + Math.min(ttftDeadlineMs, waitMs),
      engineWaitMs,
      isForRoom: engineWaitMs === null,
      done,
      refusal: behindOthers,
    })
    this.wake(now)
  }

  leave(id: string): boolean {
    const waiter = this.#queue.remove(id)
    waiter?.done({ refusal: leftQueue })
    return waiter !== undefined
  }

  ended(id: string, usage: Usage | null): void {
    const running = this.#running.get(id)
    if (running === undefined) return
    this.#running.delete(id)
    if (usage === null) return
    const { key, cachedTokens, work } = running
    const newTokens = usage.promptTokens - (usage.cachedTokens ?? cachedTokens)
    this.#queue.correct(key, workOf(newTokens, usage.completionTokens) - work)
  }

  wake(now: number): void {
    // A request that is placed changes the pool, which wakes the others.
    if (this.#isAwake || this.size === 0) return
    this.#isAwake = true
    try {
      this.#expire(now)
      for (let placed = 0; placed < MAX_PLACED; placed++)
        if (!this.#queue.next((waiter) => this.#try(waiter, now), MAX_TRIES)) return
    } finally {
      this.#isAwake = false
    }
  }

  /** Only the first of the order are tried, so what the last try of another one found may be out of date. */
  #expire(now: number): void {
    const elapsedMs = this.#elapsedMs(now)
    const expired = this.#queue.all().filter(({ expiresAt }) => elapsedMs >= expiresAt)
    for (const waiter of expired.slice(0, MAX_LAST_LOOKS)) {
      const { admission, refusal: last } = waiter
      const refusal = this.#parts.lacking(admission, now) ?? (isPoolFull(last) ? last : behindOthers)
      if (!this.#waitsOn(waiter, admission, refusal) || elapsedMs >= waiter.expiresAt)
        this.#refuse(waiter, refusal, now)
    }
  }

  #elapsedMs(now: number): number {
    const stepMs = Math.min(MAX_STEP_MS, Math.max(0, now - this.#clock.at))
    this.#clock = { at: now, elapsedMs: this.#clock.elapsedMs + stepMs }
    return this.#clock.elapsedMs
  }

  #refuse({ id, admission, done }: Waiter, refusal: Refusal, now: number): void {
    this.#queue.remove(id)
    done(this.#parts.refused(admission, refusal, now))
  }

  /** Whether a request that was tried in vain waits on. An engine that returns gives it the usual time for room. */
  #waitsOn(waiter: Waiter, admission: Admission, refusal: Refusal): boolean {
    const { ttftDeadlineMs = Infinity } = waiter.admission
    const { maxWaitMs } = waiter.limits
    const deadlineAt = waiter.since + ttftDeadlineMs
    const engineWaitMs = engineWaitOf(waiter.limits, admission, refusal)
    this.#lastEngineWaitMs = engineWaitMs
    if (engineWaitMs > 0) {
      waiter.engineWaitMs = engineWaitMs
      waiter.isForRoom = false
      waiter.expiresAt = Math.min(deadlineAt, waiter.since + engineWaitMs)
      return true
    }
    if (waiter.engineWaitMs === null) return mayWait(admission, refusal)
    if (!mayWait({ ...admission, attempt: 0 }, refusal)) return false
    if (waiter.isForRoom) return true
    waiter.isForRoom = true
    const latestAt = waiter.since + waiter.engineWaitMs + maxWaitMs
    waiter.expiresAt = Math.min(deadlineAt, latestAt, this.#clock.elapsedMs + maxWaitMs)
    return true
  }

  #try(waiter: Waiter, now: number): TryResult {
    const waitedMs = this.#elapsedMs(now) - waiter.since
    const { tenant, session, weight } = waiter
    const { ttftDeadlineMs } = waiter.admission
    const admission =
      ttftDeadlineMs === undefined
        ? waiter.admission
        : { ...waiter.admission, ttftDeadlineMs: Math.max(0, ttftDeadlineMs - waitedMs) }
    const answer = this.#parts.place(admission, now, waitedMs)
    if ('refusal' in answer && this.#waitsOn(waiter, admission, answer.refusal)) {
      waiter.refusal = answer.refusal
      return 'waits'
    }
    this.#lastEngineWaitMs = 0
    waiter.done(answer)
    if ('refusal' in answer) return 'ended'
    // The caches may have changed while it waited.
    const cachedTokens = this.#parts.cachedTokens(waiter.id)
    const work = expectedWork(admission, cachedTokens)
    this.#running.set(waiter.id, { key: { tenant, session, weight }, cachedTokens, work })
    return { work }
  }
}

/** Queue of a pool with this configuration. Requests that wait in the current one stay there, or are answered. */
export function queueOf(
  limits: QueueConfig | null,
  { current, now }: { readonly current: PoolQueue; readonly now: number },
  parts: WaitingRoomParts,
): PoolQueue {
  const room = current instanceof WaitingRoom ? current : null
  if (limits === null) {
    room?.close()
    return noQueue
  }
  if (room === null) return new WaitingRoom(parts, limits)
  room.configure(limits, now)
  return room
}
