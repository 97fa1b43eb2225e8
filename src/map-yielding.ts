import type { Ports } from './ports.ts'

/** Items per turn; at about ten microseconds each, a turn takes a millisecond or less. */
const AT_ONCE = 25

/**
 * `Promise.all` over `work`, a few items per turn, so that a large view for an operator does not delay streams. The
 * items must not change meanwhile. `yieldToEventLoop`: as in `Ports`.
 */
export async function mapYielding<Item, Result>(
  yieldToEventLoop: Ports['yieldToEventLoop'],
  items: readonly Item[],
  work: (item: Item, index: number) => Result | Promise<Result>,
): Promise<Result[]> {
  // Workers limit CPU time, and requests do not share an event loop turn.
  if (yieldToEventLoop === undefined) return Promise.all(items.map(work))
  const done: Result[] = []
  for (let at = 0; at < items.length; at += AT_ONCE) {
    if (at > 0) await yieldToEventLoop()
    done.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map((item, offset) => work(item, at + offset)))))
  }
  return done
}
