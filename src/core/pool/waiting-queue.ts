import type { RequestClass } from '../contract/admission.ts'

/** Later requests that may pass one that waits, before it goes first in its class. @testing */
export const MAX_SKIPS = 8

/** Keys whose counters are kept; further ones replace the least recently used. */
const MAX_KEYS = 4096

/** Most urgent first. */
const CLASSES: readonly RequestClass[] = ['critical', 'standard', 'sheddable']

export interface WaitingItem {
  readonly id: string
  readonly tenant: string
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
 * its weight (virtual token counter); within a key the least work first. A request that `MAX_SKIPS` later ones have
 * passed is the next of its key. While it has no room, no request behind it gets any, so that long prompts are served,
 * too.
 */
export class WaitingQueue<Item extends WaitingItem> {
  readonly #classes = new Map<RequestClass, TenantQueues<Item>>(CLASSES.map((one) => [one, new Map()]))
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
      const heads = lefts.filter(({ length }) => length > 0).map(headOf)
      if (heads.length === 0) return
      for (const entry of heads.sort((a, b) => this.#counter(a) - this.#counter(b) || a.order - b.order)) {
        given.add(entry)
        yield entry
      }
    }
  }

  #counter({ item: { tenant } }: QueueEntry<Item>): number {
    return this.#served.get(tenant) ?? 0
  }

  #skip({ order }: QueueEntry<Item>, others: ReadonlySet<QueueEntry<Item>>): void {
    for (const other of others) if (other.order < order) other.skips += 1
  }

  #charge({ tenant, weight }: Item, work: number): void {
    this.#lastServed = this.#served.get(tenant) ?? 0
    this.#set(tenant, this.#lastServed + work / weight)
  }

  /** Corrects the work that a key is charged. It starts no account for a key that was forgotten. */
  correct({ tenant, weight }: Pick<WaitingItem, 'tenant' | 'weight'>, work: number): void {
    const served = this.#served.get(tenant)
    if (served !== undefined) this.#set(tenant, served + work / weight)
  }

  /** A key gets no credit for the time in which it did not wait. */
  #lift(tenant: string): void {
    const backlogged = [...this.#classes.values()].flatMap((queues) => [...queues.keys()])
    if (backlogged.includes(tenant)) return
    const min =
      backlogged.length === 0 ? this.#lastServed : Math.min(...backlogged.map((key) => this.#served.get(key)!))
    this.#set(tenant, Math.max(this.#served.get(tenant) ?? 0, min))
  }

  #set(tenant: string, counter: number): void {
    this.#served.delete(tenant)
    this.#served.set(tenant, counter)
    if (this.#served.size <= MAX_KEYS) return
    for (const key of this.#served.keys()) {
      // Counters of keys that wait are needed.
      if ([...this.#classes.values()].some((queues) => queues.has(key))) continue
      this.#served.delete(key)
      return
    }
  }
}

const isDue = ({ skips }: QueueEntry<WaitingItem>): boolean => skips >= MAX_SKIPS

/** The oldest request that was passed too often, or the one with the least work. */
const headOf = <Item extends WaitingItem>(queue: readonly QueueEntry<Item>[]): QueueEntry<Item> =>
  queue.find(isDue) ?? queue.reduce((best, entry) => (entry.item.work < best.item.work ? entry : best))
