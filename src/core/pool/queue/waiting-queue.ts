import type { RequestClass } from '../../contract/admission.ts'
import { FairShares } from './fair-shares.ts'

/** Later requests that may pass one that waits, before it goes first in its class. @testing */
export const MAX_SKIPS = 8

/** Most urgent first. */
const CLASSES: readonly RequestClass[] = ['critical', 'standard', 'sheddable']

export interface WaitingItem {
  readonly id: string
  readonly tenant: string
  /** Session within the key. null: none; such requests of a key count as one session. */
  readonly session: string | null
  /** Share of the key relative to others. */
  readonly weight: number
  readonly requestClass: RequestClass
  /** Work that the request causes, such as tokens, as expected when it came. */
  readonly work: number
}

/** Result of an attempt to place a request: its work on its place, it has ended without one, or it still waits. */
export type TryResult = { readonly work: number } | 'ended' | 'waits'

interface QueueEntry<Item> {
  readonly item: Item
  /** Number of the arrival. */
  readonly order: number
  skips: number
}

/** Requests of one class by key, in the order of arrival. */
type TenantQueues<Item> = Map<string, QueueEntry<Item>[]>

/**
 * Order of waiting requests: more urgent classes first; between keys the one with the least work served, relative to
 * its weight (virtual token counter); within a key the session with the least work served, and of its requests the
 * one with the least work. A request that `MAX_SKIPS` later ones have passed is the next of its key. While it has no
 * room, no request behind it gets any, so that long prompts are served, too.
 */
export class WaitingQueue<Item extends WaitingItem> {
  readonly #classes = new Map<RequestClass, TenantQueues<Item>>(CLASSES.map((one) => [one, new Map()]))
  readonly #items = new Map<string, Item>()
  /** Work of each key, divided by its weight. */
  readonly #keys = new FairShares()
  readonly #sessions = new FairShares()
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
    this.#lift(item)
    const queues = this.#classes.get(requestClass)!
    const entry = { item, order: (this.#arrivals += 1), skips: 0 }
    const queue = queues.get(tenant)
    if (queue === undefined) queues.set(tenant, [entry])
    else queue.push(entry)
    this.#items.set(id, item)
  }

  /** undefined: it does not wait. */
  remove(id: string): Item | undefined {
    const item = this.#items.get(id)
    if (item === undefined) return undefined
    this.#items.delete(id)
    const queues = this.#classes.get(item.requestClass)!
    const rest = queues.get(item.tenant)!.filter((entry) => entry.item !== item)
    if (rest.length === 0) queues.delete(item.tenant)
    else queues.set(item.tenant, rest)
    return item
  }

  /**
   * Tries requests in order until one is placed, which is removed. Those that have ended are removed, too.
   * @param maxTries requests that may fail to get a place
   * @returns whether one was placed
   */
  next(attempt: (item: Item) => TryResult, maxTries: number): boolean {
    let tries = maxTries
    for (const queues of this.#classes.values()) {
      const passed = new Set<QueueEntry<Item>>()
      for (const entry of this.#inOrder(queues)) {
        const tried = attempt(entry.item)
        if (tried !== 'waits') this.remove(entry.item.id)
        if (typeof tried === 'object') {
          this.#charge(entry.item, tried.work)
          this.#skip(entry, new Set([...passed, ...(queues.get(entry.item.tenant) ?? [])]))
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
  *#inOrder(queues: TenantQueues<Item>): Generator<QueueEntry<Item>> {
    const given = new Set<QueueEntry<Item>>()
    for (;;) {
      const lefts = [...queues.values()].map((queue) => queue.filter((entry) => !given.has(entry)))
      const heads = lefts.filter(({ length }) => length > 0).map((queue) => this.#headOf(queue))
      if (heads.length === 0) return
      const counter = ({ item: { tenant } }: QueueEntry<Item>): number => this.#keys.counter(tenant)
      for (const entry of heads.sort((a, b) => counter(a) - counter(b) || a.order - b.order)) {
        given.add(entry)
        yield entry
      }
    }
  }

  /** The oldest request that was passed too often; else of the session that is next the one with the least work. */
  #headOf(queue: readonly QueueEntry<Item>[]): QueueEntry<Item> {
    const due = queue.find(isDue)
    if (due !== undefined) return due
    const counter = ({ item }: QueueEntry<Item>): number => this.#sessions.counter(accountOf(item))
    const isBefore = (a: QueueEntry<Item>, b: QueueEntry<Item>): boolean =>
      (counter(a) - counter(b) || a.item.work - b.item.work) < 0
    return queue.reduce((best, entry) => (isBefore(entry, best) ? entry : best))
  }

  #skip({ order }: QueueEntry<Item>, others: ReadonlySet<QueueEntry<Item>>): void {
    for (const other of others) if (other.order < order) other.skips += 1
  }

  #charge(item: Item, work: number): void {
    this.#keys.charge(item.tenant, work / item.weight)
    this.#sessions.charge(accountOf(item), work)
  }

  /** Corrects the work that a key and its session are charged. */
  correct(item: Pick<WaitingItem, 'tenant' | 'session' | 'weight'>, work: number): void {
    this.#keys.correct(item.tenant, work / item.weight)
    this.#sessions.correct(accountOf(item), work)
  }

  #lift(item: Item): void {
    const waiting = new Set<string>()
    let ofKey: readonly QueueEntry<Item>[] = []
    for (const queues of this.#classes.values()) {
      for (const tenant of queues.keys()) waiting.add(tenant)
      ofKey = [...ofKey, ...(queues.get(item.tenant) ?? [])]
    }
    if (!waiting.has(item.tenant)) this.#keys.lift(item.tenant, waiting)
    const sessions = new Set(ofKey.map((entry) => accountOf(entry.item)))
    const account = accountOf(item)
    if (!sessions.has(account)) this.#sessions.lift(account, sessions)
  }
}

/** Account of a session, which is never that of another key. */
const accountOf = ({ tenant, session }: Pick<WaitingItem, 'tenant' | 'session'>): string =>
  JSON.stringify([tenant, session])

const isDue = ({ skips }: QueueEntry<WaitingItem>): boolean => skips >= MAX_SKIPS
