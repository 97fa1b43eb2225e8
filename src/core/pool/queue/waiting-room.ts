import type { Admission } from '../../contract/admission.ts'
import type { Usage } from '../../contract/outcome.ts'
import type { QueueConfig } from '../../contract/pool-config.ts'
import { isPoolFull, type Refusal } from '../../contract/refusal.ts'
import type { AdmissionResult } from '../admission-result.ts'
import { bookingKey } from '../bookings.ts'
import { behindOthers, leftQueue, queueClosed, queueFull } from '../refusals.ts'
import { noQueue, type RequestQueue } from './request-queue.ts'
import { type RequestDemand, expectedWork, workOf } from './request-demand.ts'
import { engineWaitOf, mayWaitForRoom, WaitLimit } from './wait-limit.ts'
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
  readonly limit: WaitLimit
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

/** Requests of a pool that wait for room: each is answered once. Only pools with a queue have it. */
export class WaitingRoom implements RequestQueue {
  readonly #queue = new WaitingQueue<Waiter>()
  readonly #running = new Map<string, PlacedRequest>()
  readonly #parts: WaitingRoomParts
  #limits: QueueConfig
  #isAwake = false
  /** Longest wait for an engine, as found by the last try, ms; null: an engine was there. New ones begin with it. */
  #engineWaitMs: number | null = null
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
    if (!mayWaitForRoom(admission, refusal)) return false
    return this.#queue.get(bookingKey(admission)) !== undefined || this.#isOfUse(admission, now)
  }

  /** Whether the first token can be in time after a wait. A request that is late in any case would delay others. */
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
    const { requestClass = 'standard', attempt } = admission
    return attempt === 0 && this.#queue.waits(requestClass) && this.#isOfUse(admission, now)
  }

  join(admission: Admission, { now, waitedMs, done }: WaitTerms): void {
    const id = bookingKey(admission)
    // Its caller lost the connection and asks again.
    this.leave(id)
    if (this.size >= this.#limits.maxRequests) return done(this.#parts.refused(admission, queueFull, now))
    const { tenant, session, requestClass = 'standard', keyWeight: weight = 1, ttftDeadlineMs = Infinity } = admission
    if (this.size === 0) this.#clock.at = now
    const { work, longestWaitMs } = this.#parts.demandOf(admission, now)
    const since = this.#elapsedMs(now) - waitedMs
    const order = { id, tenant, session, requestClass, weight, work }
    this.#queue.add({
      ...order,
      admission,
      since,
      limit: new WaitLimit({
        limits: this.#limits,
        since,
        waitedMs,
        ttftDeadlineMs,
        longestWaitMs,
        engineWaitMs: this.#engineWaitMs,
      }),
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
    const expired = this.#queue.all().filter(({ limit }) => elapsedMs >= limit.expiresAt)
    for (const waiter of expired.slice(0, MAX_LAST_LOOKS)) {
      const { admission, refusal: last } = waiter
      const refusal = this.#parts.lacking(admission, now) ?? (isPoolFull(last) ? last : behindOthers)
      if (!this.#waitsOn(waiter, admission, refusal) || elapsedMs >= waiter.limit.expiresAt)
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

  /** Whether a request that was tried in vain waits on. */
  #waitsOn({ limit }: Waiter, admission: Admission, refusal: Refusal): boolean {
    const goesOn = limit.goesOn(admission, refusal, this.#clock.elapsedMs)
    this.#engineWaitMs = goesOn ? limit.engineWaitMs : null
    return goesOn
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
    this.#engineWaitMs = null
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
  { current, now }: { readonly current: RequestQueue; readonly now: number },
  parts: WaitingRoomParts,
): RequestQueue {
  const room = current instanceof WaitingRoom ? current : null
  if (limits === null) {
    room?.close()
    return noQueue
  }
  if (room === null) return new WaitingRoom(parts, limits)
  room.configure(limits, now)
  return room
}
