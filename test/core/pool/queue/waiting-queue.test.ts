import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_SKIPS, type WaitingItem, WaitingQueue } from '../../../../src/core/pool/queue/waiting-queue.ts'
import type { RequestClass } from '../../../../src/core/contract/admission.ts'

const waiting = (id: string, changes: Partial<WaitingItem> = {}): WaitingItem => ({
  id,
  tenant: 'team',
  session: null,
  weight: 1,
  requestClass: 'standard',
  work: 1,
  ...changes,
})

function filled(...items: readonly WaitingItem[]): WaitingQueue<WaitingItem> {
  const queue = new WaitingQueue<WaitingItem>()
  for (const item of items) queue.add(item)
  return queue
}

/** Places the next request for which there is room. undefined: none. */
function placed(
  queue: WaitingQueue<WaitingItem>,
  fits: (item: WaitingItem) => boolean = () => true,
): WaitingItem | undefined {
  let found: WaitingItem | undefined
  queue.next((item) => {
    if (!fits(item)) return 'waits'
    found = item
    return { work: item.work }
  }, 4)
  return found
}

const drained = (queue: WaitingQueue<WaitingItem>): string[] => {
  const ids: string[] = []
  while (queue.size > 0) ids.push(placed(queue)!.id)
  return ids
}

describe('the order of waiting requests', () => {
  it('the queue serves more urgent classes first', () => {
    const classes: readonly RequestClass[] = ['sheddable', 'standard', 'critical']
    const queue = filled(...classes.map((requestClass) => waiting(requestClass, { requestClass })))
    expect(classes.map((one) => queue.waits(one))).toEqual([true, true, true])
    expect(placed(queue)!.id).toBe('critical')
    expect([queue.waits('critical'), queue.waits('standard')]).toEqual([false, true])
    expect(drained(queue)).toEqual(['standard', 'sheddable'])
  })

  it('the queue serves the shortest request of a key first', () => {
    const queue = filled(waiting('long', { work: 9 }), waiting('short', { work: 1 }), waiting('middle', { work: 5 }))
    expect(drained(queue)).toEqual(['short', 'middle', 'long'])
  })

  it('the queue serves the sessions of a key in turn, the shortest request of each first', () => {
    const busy = Array.from({ length: 3 }, (_, at) => waiting(`busy-${at}`, { session: 'busy', work: 2 + at }))
    const queue = filled(...busy, waiting('calm', { session: 'calm', work: 9 }), waiting('none', { work: 5 }))
    expect(drained(queue)).toEqual(['busy-0', 'none', 'calm', 'busy-1', 'busy-2'])
  })

  it('the queue counts sessions of one name apart for each key', () => {
    const queue = filled(...[1, 2].map((at) => waiting(`a-${at}`, { tenant: 'a', session: 's', work: 8 })))
    expect(placed(queue)!.id).toBe('a-1')
    queue.add(waiting('b-s', { tenant: 'b', session: 's', work: 1 }))
    queue.add(waiting('b-t', { tenant: 'b', session: 't', work: 2 }))
    expect(drained(queue)).toEqual(['a-2', 'b-s', 'b-t'])
  })

  it('the queue serves a long request after the most skips', () => {
    const queue = filled(waiting('long', { work: 1000 }))
    const order: string[] = []
    for (let at = 0; at < 20; at++) {
      queue.add(waiting(`short-${at}`))
      order.push(placed(queue)!.id)
    }
    expect(order.indexOf('long')).toBe(MAX_SKIPS)
  })

  it('the queue gives room that one request does not fit into to another key, and lets nobody pass it too often', () => {
    const queue = filled(waiting('long', { tenant: 'b', work: 1000 }))
    let passed = 0
    for (let at = 0; at < 20; at++) {
      queue.add(waiting(`short-${at}`))
      if (placed(queue, ({ id }) => id !== 'long') !== undefined) passed += 1
    }
    expect(queue.get('long')).toBeDefined()
    // Only requests that came before it count; later ones of another key pass while it has no room.
    expect(passed).toBe(MAX_SKIPS)
    expect(placed(queue)!.id).toBe('long')
  })

  it('the queue gives room that one request does not fit into to another of the same key, and counts each passing once', () => {
    const queue = filled(waiting('first', { work: 2 }), waiting('second', { work: 3 }))
    const passing = Array.from({ length: 20 }, (_, at) => {
      queue.add(waiting(`later-${at}`))
      return placed(queue, ({ id }) => id !== 'first')?.id
    })
    expect(passing.slice(0, MAX_SKIPS)).toEqual(Array.from({ length: MAX_SKIPS }, (_, at) => `later-${at}`))
    // Both are due now: the second one waits behind the first.
    expect(passing.slice(MAX_SKIPS)).toEqual(Array.from({ length: 20 - MAX_SKIPS }, () => undefined))
    expect([placed(queue)!.id, placed(queue)!.id]).toEqual(['first', 'second'])
  })

  it('the queue gives no credit for time without requests', () => {
    const queue = filled()
    for (let at = 0; at < 50; at++) queue.add(waiting(`busy-${at}`, { tenant: 'busy' }))
    for (let at = 0; at < 40; at++) placed(queue)
    for (let at = 0; at < 10; at++) queue.add(waiting(`idle-${at}`, { tenant: 'idle' }))
    const next = Array.from({ length: 10 }, () => placed(queue)!.tenant)
    expect(next.filter((tenant) => tenant === 'idle')).toHaveLength(5)
  })

  it('the queue forgets a request that leaves', () => {
    const queue = filled(waiting('a'), waiting('b'))
    expect(queue.remove('a')?.id).toBe('a')
    expect(queue.remove('a')).toBeUndefined()
    expect(drained(queue)).toEqual(['b'])
  })

  it('ends with as many attempts as are allowed', () => {
    const queue = filled(...['a', 'b', 'c', 'd', 'e', 'f'].map((id) => waiting(id, { tenant: id })))
    const tried: string[] = []
    const attempt = ({ id }: WaitingItem) => {
      tried.push(id)
      return 'waits' as const
    }
    expect(queue.next(attempt, 4)).toBe(false)
    expect(tried).toEqual(['a', 'b', 'c', 'd'])
    expect(queue.size).toBe(6)
  })
})

const item = fc.record({
  tenant: fc.constantFrom('a', 'b', 'c'),
  requestClass: fc.constantFrom<RequestClass>('critical', 'standard', 'sheddable'),
  work: fc.integer({ min: 1, max: 60_000 }),
})
const step = fc.oneof(
  item,
  fc.constant('place' as const),
  fc.constant('full' as const),
  fc.nat(30).map((leaves) => ({ leaves })),
)

describe('any sequence of arrivals, places and departures', () => {
  it('the queue ends every request once', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const queue = filled()
        const ended: string[] = []
        let added = 0
        for (const one of steps) {
          if (one === 'place') ended.push(...[placed(queue)].flatMap((found) => found?.id ?? []))
          else if (one === 'full') placed(queue, () => false)
          else if ('leaves' in one)
            ended.push(...[queue.remove(String(one.leaves))].flatMap((found) => found?.id ?? []))
          else queue.add(waiting(String(added++), one))
        }
        ended.push(...drained(queue))
        expect(ended.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: added }, (_, at) => at))
      }),
    )
  })

  it('the queue lets at most eight later requests of its key and class pass a request', () => {
    const arrivals = fc.array(fc.oneof(item, fc.constant('place' as const)), { maxLength: 150 })
    fc.assert(
      fc.property(arrivals, (steps) => {
        const queue = filled()
        let added = 0
        const order: WaitingItem[] = []
        for (const one of steps) {
          if (one === 'place') order.push(...[placed(queue)].flatMap((found) => found ?? []))
          else queue.add(waiting(String(added++), { ...one, weight: 1 }))
        }
        while (queue.size > 0) order.push(placed(queue)!)
        for (const [at, { id, tenant, requestClass }] of order.entries()) {
          const passed = order
            .slice(0, at)
            .filter(
              (other) =>
                other.tenant === tenant && other.requestClass === requestClass && Number(other.id) > Number(id),
            )
          expect(passed.length).toBeLessThanOrEqual(MAX_SKIPS)
        }
      }),
    )
  })

  it('the queue divides work between two keys by their weights, within 5 % and one request', () => {
    const works = fc.array(fc.integer({ min: 1, max: 60_000 }), { minLength: 60, maxLength: 60 })
    fc.assert(
      fc.property(works, works, fc.constantFrom(1, 3, 10), (mine, others, weight) => {
        const queue = filled()
        for (const [at, work] of mine.entries()) queue.add(waiting(`a${at}`, { tenant: 'a', work }))
        for (const [at, work] of others.entries()) queue.add(waiting(`b${at}`, { tenant: 'b', work, weight }))
        const served = { a: 0, b: 0 }
        let largest = 0
        let left = { a: mine.length, b: others.length }
        while (left.a > 1 && left.b > 1) {
          const { tenant, work } = placed(queue)!
          served[tenant as 'a' | 'b'] += work
          left = { ...left, [tenant]: left[tenant as 'a' | 'b'] - 1 }
          largest = Math.max(largest, work)
        }
        expect(Math.abs(served.a - served.b / weight)).toBeLessThanOrEqual(largest + 0.05 * served.a)
      }),
    )
  })
})
