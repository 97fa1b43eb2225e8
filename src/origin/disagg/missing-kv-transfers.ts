/**
 * Prefill engines that hand nothing over, such as one whose connector is not configured, or a route that returns no
 * transfer parameters. Each of their prefill legs is wasted, because the decode engine computes the prompt again.
 */
import { BoundedMap } from '../../core/bounded-map.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { withoutQuery } from '../../url.ts'

/** One missing transfer can be that of a prompt shorter than a block. */
const MISSED_LEGS = 3

/** Time, ms, after which one leg is tried again. */
const SKIP_MS = 60_000

const MAX_ROUTES = 10_000

interface Misses {
  readonly legs: number
  readonly skippedUntil: number
}

export class MissingKvTransfers {
  readonly #misses = new BoundedMap<string, Misses>(MAX_ROUTES)
  /** false as long as all legs have transferred, which is usual. */
  #isUsed = false

  /** Whether a prefill leg on this path would be wasted. */
  isKnown(target: EngineTarget, path: string, now: number): boolean {
    return this.#isUsed && (this.#misses.get(keyOf(target, path))?.skippedUntil ?? 0) > now
  }

  missed(target: EngineTarget, path: string, now: number): void {
    this.#isUsed = true
    const key = keyOf(target, path)
    const legs = (this.#misses.get(key)?.legs ?? 0) + 1
    this.#misses.set(key, { legs, skippedUntil: legs < MISSED_LEGS ? 0 : now + SKIP_MS })
  }

  transferred(target: EngineTarget, path: string): void {
    if (this.#isUsed) this.#misses.delete(keyOf(target, path))
  }
}

const keyOf = ({ url }: EngineTarget, path: string): string => `${url} ${withoutQuery(path)}`
