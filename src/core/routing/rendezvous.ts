import { hashPair, hashText } from './placement-hash.ts'

const TWO_TO_32 = 2 ** 32

interface Weighted {
  readonly id: string
  readonly weight: number
}

/**
 * Highest-random-weight order of the engines for a key: equal lists give equal orders, and a change of the list moves
 * only the keys of that engine. Weights by -w/ln(u) (Schindelhauer and Schomaker 2005).
 */
export function rendezvous<E extends Weighted>(key: number, engines: readonly E[]): E[] {
  const scored = engines.map((engine) => ({ engine, score: share(engine.weight, unit(key, engine.id)) }))
  return scored
    .sort((one, other) => other.score - one.score || (one.engine.id < other.engine.id ? -1 : 1))
    .map(({ engine }) => engine)
}

/**
 * Bounded load (Mirrokni, Thorup, Zadimoghaddam 2016): engines with more than `bound` times their fair share of all
 * requests, including the new one, move to the end. Keeps the order otherwise.
 */
export function withinBound<E extends Weighted & { readonly requests: number }>(
  order: readonly E[],
  bound: number,
): E[] {
  const requests = order.reduce((sum, engine) => sum + engine.requests, 1)
  const weights = order.reduce((sum, engine) => sum + engine.weight, 0)
  const hasRoom = (engine: E) => engine.requests < Math.ceil((bound * requests * engine.weight) / weights)
  return [...order.filter(hasRoom), ...order.filter((engine) => !hasRoom(engine))]
}

/** In (0, 1). */
function unit(key: number, id: string): number {
  return (hashPair(key, hashText(id)) + 0.5) / TWO_TO_32
}

function share(weight: number, uniform: number): number {
  return -weight / Math.log(uniform)
}
