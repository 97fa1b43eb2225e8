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
  /** Its engines speak TLS with a certificate that no authority has signed. */
  readonly secure?: boolean
  /** Each engine is also a pod of the cluster that the gateway finds in KUBECONFIG. */
  readonly pods?: boolean
  /** Keys of one engine. `urls`: addresses of all engines of the pool. */
  readonly engine?: (letter: string, type: string, urls: readonly string[]) => object
}

/** Engine a has the fault, and b serves. Circuits never open. */
export const PAIR: PoolPlan = { letters: ['a', 'b'] }
