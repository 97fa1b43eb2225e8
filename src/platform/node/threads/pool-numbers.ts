import type { Config } from '../../../config.ts'
import type { PoolName } from '../../../ports/pool.ts'

/**
 * Lists pools in the order that both sides use. Pools of earlier configurations keep their number, because messages
 * about them may be in flight.
 */
export function poolNames(
  { clusters }: Pick<Config, 'clusters'>,
  before: readonly PoolName[] = [],
): readonly PoolName[] {
  const known = new Set(before.map((name) => JSON.stringify(name)))
  const all = clusters.flatMap(({ id, pools }) => pools.map(({ model }) => [id, model] as const))
  return [...before, ...all.filter((name) => !known.has(JSON.stringify(name)))]
}

/** Numbers the pools. */
export class PoolNumbers {
  #numbers: ReadonlyMap<string, number>

  constructor(names: readonly PoolName[]) {
    this.#numbers = numbered(names)
  }

  adopt(names: readonly PoolName[]): void {
    this.#numbers = numbered(names)
  }

  /** Throws for an unknown pool. */
  readonly of = (...name: PoolName): number => {
    const number = this.#numbers.get(JSON.stringify(name))
    if (number === undefined) throw new Error(`cluster ${name[0]} has no pool ${name[1]}`)
    return number
  }
}

const numbered = (names: readonly PoolName[]): ReadonlyMap<string, number> =>
  new Map(names.map((name, number) => [JSON.stringify(name), number]))
