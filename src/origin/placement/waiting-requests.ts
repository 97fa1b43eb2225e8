/** Requests of one gateway that wait for room in a pool, so that a drain or a removed key answers them at once. */
import type { Failure } from '../../failure.ts'

/** Why a request of this key may not wait or run any more; null: it may. */
type EndCheck = (tenant: string) => Failure | null

const NEVER: EndCheck = () => null

export class WaitingRequests {
  readonly #ends = new Set<() => void>()
  #endCheck: EndCheck = NEVER

  /** @param isNow waiting requests end now; otherwise when they get a place */
  end(endCheck: EndCheck, isNow: boolean): void {
    this.#endCheck = endCheck
    if (isNow) for (const end of this.#ends) end()
  }

  /** Throws if requests of the key may not run any more. */
  check(tenant: string): void {
    const failure = this.#endCheck(tenant)
    if (failure !== null) throw failure
  }

  /** Calls `end` when a request of the key may not wait any more. Returns a function that ends the call. */
  watch(tenant: string, end: (failure: Failure) => void): () => void {
    const recheck = (): void => {
      const failure = this.#endCheck(tenant)
      if (failure !== null) end(failure)
    }
    this.#ends.add(recheck)
    return () => void this.#ends.delete(recheck)
  }
}
