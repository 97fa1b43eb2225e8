import type { Admission, PoolConfig, Refusal, Usage, RequestClass } from '../contract/contract.ts'
import { bookingKey } from './bookings.ts'
import type { Admitted } from './pool-state.ts'

/** Requests placed in one wake-up; the next one continues. */
const MOST_PLACED = 16
/** Requests that fail to get a place in one wake-up, because each costs a ranking. */
const MOST_TRIES = 4
const FULL_RETRY_MS = 1_000
/** Assumed output of a request without an expected length. */
const USUAL_OUTPUT_TOKENS = 256
/** Interval at which hosts call `wake` while requests wait, ms: predictions change without events, and waits end. */
export const WAKE_MS = 50
/** Longest step of the clock that counts as waiting, ms: if it is longer, the clock was set. */
const MOST_STEP_MS = 1_000

export type Answer = Admitted | { readonly refusal: Refusal }

/** How a request waits. */
export interface WaitTerms {
  readonly now: number
  /** Time that it has waited elsewhere before, ms. */
  readonly waitedMs: number
  /** Called once. */
  readonly done: (answer: Answer) => void
}

interface Waiter extends Waiting {
  readonly admission: Admission
  /** Time on the clock of the queue, ms. */
  readonly since: number
  /** Time on the clock of the queue, ms. */
  readonly expiresAt: number
  readonly done: (answer: Answer) => void
  /** Of its last attempt. */
  refusal: Refusal
}

/** A request that has waited and runs. */
interface Running {
  readonly key: Pick<Waiting, 'tenant' | 'weight'>
  readonly cachedTokens: number
  /** Work that its key is charged. */
  readonly work: number
}

/** What a request asks of the engine that suits it best. */
export interface Demand {
  /** Expected work, for the order. */
  readonly work: number
  /** Longest wait after which its first token can meet the objective of the pool, ms. */
  readonly longestWaitMs: number
}

export interface WaitingRoomParts {
  readonly demandOf: (admission: Admission, now: number) => Demand
  /** Places a request that has waited for `waitedMs`. */
  readonly place: (admission: Admission, now: number, waitedMs: number) => Answer
  /** Predicted cached tokens of a placed request, by its booking key. */
  readonly cachedTokens: (key: string) => number
  /** Counts a request that has waited in vain, and returns its answer. */
  readonly refused: (admission: Admission, refusal: Refusal) => Answer
}

/** Someone else waits, so a new request may not take the room. */
export const behindOthers: Refusal = {
  reason: 'overloaded',
  limit: 'queue',
  detail: 'other requests wait for room',
  retryAfterMs: FULL_RETRY_MS,
}

/** Why a request that left, or whose connection was replaced, is not placed. */
export const leftQueue: Refusal = { ...behindOthers, detail: 'the request does not wait any more' }

const queueFull: Refusal = { ...behindOthers, detail: 'the queue of the pool is full' }

/** Why waiting requests are answered when the configuration changes. */
const queueClosed: Refusal = { ...behindOthers, detail: 'the pool has no queue any more' }

/** Whether waiting may help a refused request. */
const mayWait = ({ attempt, hedge = false }: Admission, { reason, limit }: Refusal): boolean =>
  attempt === 0 && !hedge && (reason === 'engines_full' || (reason === 'overloaded' && limit !== 'deadline'))

/** Work of a request, in tokens. An output token counts twice. */
const workOf = (newTokens: number, outputTokens: number): number => Math.max(0, newTokens) + 2 * outputTokens

/** Expected work of a request on an engine with these tokens of it in the cache. */
export const expectedWork = ({ promptTokens, expectedOutputTokens }: Admission, cachedTokens: number): number =>
  workOf(promptTokens - cachedTokens, expectedOutputTokens ?? USUAL_OUTPUT_TOKENS)

/** Requests of a pool that wait for room: each is answered once. */
export class WaitingRoom {
  readonly #queue = new WaitingQueue<Waiter>()
  readonly #running = new Map<string, Running>()
  readonly #parts: WaitingRoomParts
  #limits: PoolConfig['queue'] = null
  #isAwake = false
  /** Clock of the queue, which runs while requests wait: waits do not end together when the host's clock is set. */
  #clock = { at: 0, elapsedMs: 0 }

  constructor(parts: WaitingRoomParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#queue.size
  }

  /** The pool has a queue. */
  get isOpen(): boolean {
    return (this.#limits ?? null) !== null
  }

  /** Whether the refused request waits, or may begin to. */
  takes(admission: Admission, refusal: Refusal, now: number): boolean {
    if (!this.isOpen || !mayWait(admission, refusal)) return false
    return this.#queue.get(bookingKey(admission)) !== undefined || this.#isOfUse(admission, now)
  }

  /** Others are late whether they wait or not, and delay those that are not. */
  #isOfUse(admission: Admission, now: number): boolean {
    return this.#parts.demandOf(admission, now).longestWaitMs > 0
  }

  /** Waiting requests keep their limits. Without a queue they are answered. */
  configure(limits: PoolConfig['queue'], now: number): void {
    this.#limits = limits
    if (this.isOpen) this.wake(now)
    else for (const waiter of this.#queue.all()) this.#refuse(waiter, queueClosed)
  }

  /** Time that the oldest request has waited, ms; 0: none waits. */
  oldestMs(now: number): number {
    const elapsedMs = this.#elapsedMs(now)
    return this.#queue.all().reduce((most, { since }) => Math.max(most, elapsedMs - since), 0)
  }

  /** Whether a new request has to wait behind others. */
  holdsBack(admission: Admission, now: number): boolean {
    const { requestClass = 'standard', attempt, hedge = false } = admission
    return attempt === 0 && !hedge && this.#queue.waits(requestClass) && this.#isOfUse(admission, now)
  }

  join(admission: Admission, { now, waitedMs, done }: WaitTerms): void {
    const id = bookingKey(admission)
    // Its caller lost the connection and asks again.
    this.leave(id)
    const { maxRequests, maxWaitMs } = this.#limits!
    if (this.size >= maxRequests) return done(this.#parts.refused(admission, queueFull))
    const { tenant, requestClass = 'standard', keyWeight: weight = 1, ttftDeadlineMs = Infinity } = admission
    if (this.size === 0) this.#clock.at = now
    const { work, longestWaitMs } = this.#parts.demandOf(admission, now)
    const since = this.#elapsedMs(now) - waitedMs
    const expiresAt = since + Math.min(maxWaitMs, ttftDeadlineMs, longestWaitMs)
    const order = { id, tenant, requestClass, weight, work }
    this.#queue.add({ ...order, admission, since, expiresAt, done, refusal: behindOthers })
    this.wake(now)
  }

  /** Ends the wait of a request whose client has left. false: it does not wait. */
  leave(id: string): boolean {
    const waiter = this.#queue.remove(id)
    waiter?.done({ refusal: leftQueue })
    return waiter !== undefined
  }

  /** Corrects the work that the key of a placed request is charged, when its response has ended. */
  ended(id: string, usage: Usage | null): void {
    const running = this.#running.get(id)
    if (running === undefined) return
    this.#running.delete(id)
    if (usage === null) return
    const { key, cachedTokens, work } = running
    const newTokens = usage.promptTokens - (usage.cachedTokens ?? cachedTokens)
    this.#queue.correct(key, workOf(newTokens, usage.completionTokens) - work)
  }

  /** Places what has room now, and answers what has waited too long. */
  wake(now: number): void {
    // A request that is placed changes the pool, which wakes the others.
    if (this.#isAwake || this.size === 0) return
    this.#isAwake = true
    try {
      this.#expire(now)
      for (let placed = 0; placed < MOST_PLACED; placed++)
        if (!this.#queue.next((waiter) => this.#try(waiter, now), MOST_TRIES)) return
    } finally {
      this.#isAwake = false
    }
  }

  #expire(now: number): void {
    const elapsedMs = this.#elapsedMs(now)
    for (const waiter of this.#queue.all()) if (elapsedMs >= waiter.expiresAt) this.#refuse(waiter, waiter.refusal)
  }

  #elapsedMs(now: number): number {
    const stepMs = Math.min(MOST_STEP_MS, Math.max(0, now - this.#clock.at))
    this.#clock = { at: now, elapsedMs: this.#clock.elapsedMs + stepMs }
    return this.#clock.elapsedMs
  }

  #refuse({ id, admission, done }: Waiter, refusal: Refusal): void {
    this.#queue.remove(id)
    done(this.#parts.refused(admission, refusal))
  }

  #try(waiter: Waiter, now: number): Tried {
    const waitedMs = this.#elapsedMs(now) - waiter.since
    const { tenant, weight } = waiter
    const { ttftDeadlineMs: deadlineMs } = waiter.admission
    const admission =
      deadlineMs === undefined
        ? waiter.admission
        : { ...waiter.admission, ttftDeadlineMs: Math.max(0, deadlineMs - waitedMs) }
    const answer = this.#parts.place(admission, now, waitedMs)
    if ('refusal' in answer && mayWait(admission, answer.refusal)) {
      waiter.refusal = answer.refusal
      return 'waits'
    }
    waiter.done(answer)
    if ('refusal' in answer) return 'ended'
    // The caches may have changed while it waited.
    const cachedTokens = this.#parts.cachedTokens(waiter.id)
    const work = expectedWork(admission, cachedTokens)
    this.#running.set(waiter.id, { key: { tenant, weight }, cachedTokens, work })
    return { work }
  }
}

/* Order of the queue. */

/** Later requests that may pass one that waits, before it goes first in its class. */
export const MOST_SKIPS = 8
/** Keys whose counters are kept; further ones replace the least recently used. */
const MAX_KEYS = 4096
/** Most urgent first. */
const CLASSES: readonly RequestClass[] = ['critical', 'standard', 'sheddable']

export interface Waiting {
  readonly id: string
  readonly tenant: string
  /** Share of the key relative to others. */
  readonly weight: number
  readonly requestClass: RequestClass
  /** Work that the request causes, such as tokens, as expected when it came. */
  readonly work: number
}

/** Result of an attempt to place a request: its work on its place, it has ended without one, or it still waits. */
type Tried = { readonly work: number } | 'ended' | 'waits'

interface Entry<Item> {
  readonly item: Item
  /** Number of the arrival. */
  readonly order: number
  skips: number
}

/** Requests of one class by key, in the order of arrival. */
type Lines<Item> = Map<string, Entry<Item>[]>

/**
 * Order of waiting requests: more urgent classes first; between keys the one with the least work served, relative to
 * its weight (virtual token counter); within a key the least work first. A request that `MOST_SKIPS` later ones have
 * passed is the next of its key. While it has no room, no request behind it gets any, so that long prompts are served,
 * too.
 */
export class WaitingQueue<Item extends Waiting> {
  readonly #classes = new Map<RequestClass, Lines<Item>>(CLASSES.map((one) => [one, new Map()]))
  readonly #items = new Map<string, Item>()
  /** Key → work served, divided by the weight. Least recently used first. */
  readonly #served = new Map<string, number>()
  /** Counter of the key that was served last. A key that comes while no request waits starts there. */
  #lastServed = 0
  #arrivals = 0

  get size(): number {
    return this.#items.size
  }

  get(id: string): Item | undefined {
    return this.#items.get(id)
  }

  /** In the order of arrival. */
  all(): Item[] {
    return [...this.#items.values()]
  }

  /** Whether a request of this class, or of a more urgent one, waits. */
  waits(requestClass: RequestClass): boolean {
    return CLASSES.slice(0, CLASSES.indexOf(requestClass) + 1).some((one) => this.#classes.get(one)!.size > 0)
  }

  add(item: Item): void {
    const { id, tenant, requestClass } = item
    this.#lift(tenant)
    const lines = this.#classes.get(requestClass)!
    const entry = { item, order: (this.#arrivals += 1), skips: 0 }
    const line = lines.get(tenant)
    if (line === undefined) lines.set(tenant, [entry])
    else line.push(entry)
    this.#items.set(id, item)
  }

  /** undefined: it does not wait. */
  remove(id: string): Item | undefined {
    const item = this.#items.get(id)
    if (item === undefined) return undefined
    this.#items.delete(id)
    const lines = this.#classes.get(item.requestClass)!
    const rest = lines.get(item.tenant)!.filter((entry) => entry.item !== item)
    if (rest.length === 0) lines.delete(item.tenant)
    else lines.set(item.tenant, rest)
    return item
  }

  /**
   * Tries requests in order until one is placed, which is removed. Those that have ended are removed, too.
   * @param mostTries requests that may fail to get a place
   * @returns whether one was placed
   */
  next(attempt: (item: Item) => Tried, mostTries: number): boolean {
    let tries = mostTries
    for (const lines of this.#classes.values()) {
      const passed = new Set<Entry<Item>>()
      for (const entry of this.#inOrder(lines)) {
        const tried = attempt(entry.item)
        if (tried !== 'waits') this.remove(entry.item.id)
        if (typeof tried === 'object') {
          this.#charge(entry.item, tried.work)
          this.#skip(entry, new Set([...passed, ...(lines.get(entry.item.tenant) ?? [])]))
          return true
        }
        // Others of its class and less urgent ones would take the room that it waits for.
        tries -= 1
        if (tries <= 0 || (tried === 'waits' && isDue(entry))) return false
        passed.add(entry)
      }
    }
    return false
  }

  /** The next request of each key, then the second one of each, and so on: they may fit where the first does not. */
  *#inOrder(lines: Lines<Item>): Generator<Entry<Item>> {
    const given = new Set<Entry<Item>>()
    for (;;) {
      const lefts = [...lines.values()].map((line) => line.filter((entry) => !given.has(entry)))
      const heads = lefts.filter(({ length }) => length > 0).map(headOf)
      if (heads.length === 0) return
      for (const entry of heads.sort((a, b) => this.#counter(a) - this.#counter(b) || a.order - b.order)) {
        given.add(entry)
        yield entry
      }
    }
  }

  #counter({ item: { tenant } }: Entry<Item>): number {
    return this.#served.get(tenant) ?? 0
  }

  #skip({ order }: Entry<Item>, others: ReadonlySet<Entry<Item>>): void {
    for (const other of others) if (other.order < order) other.skips += 1
  }

  #charge({ tenant, weight }: Item, work: number): void {
    this.#lastServed = this.#served.get(tenant) ?? 0
    this.#set(tenant, this.#lastServed + work / weight)
  }

  /** Corrects the work that a key is charged. It starts no account for a key that was forgotten. */
  correct({ tenant, weight }: Pick<Waiting, 'tenant' | 'weight'>, work: number): void {
    const served = this.#served.get(tenant)
    if (served !== undefined) this.#set(tenant, served + work / weight)
  }

  /** A key gets no credit for the time in which it did not wait. */
  #lift(tenant: string): void {
    const backlogged = [...this.#classes.values()].flatMap((lines) => [...lines.keys()])
    if (backlogged.includes(tenant)) return
    const least =
      backlogged.length === 0 ? this.#lastServed : Math.min(...backlogged.map((key) => this.#served.get(key)!))
    this.#set(tenant, Math.max(this.#served.get(tenant) ?? 0, least))
  }

  #set(tenant: string, counter: number): void {
    this.#served.delete(tenant)
    this.#served.set(tenant, counter)
    if (this.#served.size <= MAX_KEYS) return
    for (const key of this.#served.keys()) {
      // Counters of keys that wait are needed.
      if ([...this.#classes.values()].some((lines) => lines.has(key))) continue
      this.#served.delete(key)
      return
    }
  }
}

const isDue = ({ skips }: Entry<Waiting>): boolean => skips >= MOST_SKIPS

/** The oldest request that was passed too often, or the one with the least work. */
const headOf = <Item extends Waiting>(line: readonly Entry<Item>[]): Entry<Item> =>
  line.find(isDue) ?? line.reduce((best, entry) => (entry.item.work < best.item.work ? entry : best))
