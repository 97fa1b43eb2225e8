import type { Ports } from '../ports.ts'

/** Of what takes some ten microseconds each: a millisecond or less at a time. */
const AT_ONCE = 25

/**
 * As `Promise.all` over `work`, a few at a time, between which everything else has its turn: what an operator looks at
 * may
 * be large, and nobody's stream waits for it. What is worked on must not change meanwhile. `turn` as in the ports.
 */
export async function mapYielding<Item, Result>(
  turn: Ports['yieldToEventLoop'],
  items: readonly Item[],
  work: (item: Item, index: number) => Result | Promise<Result>,
): Promise<Result[]> {
  // Workers count the time that is spent, not who waits.
  if (turn === undefined) return Promise.all(items.map(work))
  const done: Result[] = []
  for (let at = 0; at < items.length; at += AT_ONCE) {
    if (at > 0) await turn()
    done.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map((item, offset) => work(item, at + offset)))))
  }
  return done
}
