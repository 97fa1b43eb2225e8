import type { Routes } from '../../../test/kit/fake-answer.ts'

/** A pool that cases use. Cases of one pool run one after the other. */
export interface PoolPlan {
  /** Ids of its engines. */
  readonly letters: readonly string[]
  /** Keys of the pool in the configuration. */
  readonly pool?: (type: string, model: string) => object
  /** Routes that an engine has from its start, besides those of its health. */
  readonly routes?: (letter: string, type: string, model: string) => Routes
  /** Further limits of the pool's own key. */
  readonly keyLimits?: object
  /** Keys of one engine. `urls`: addresses of all engines of the pool. */
  readonly engine?: (letter: string, type: string, urls: readonly string[]) => object
}

/** Engine a has the fault, and b serves. Circuits never open. */
export const PAIR: PoolPlan = { letters: ['a', 'b'] }
