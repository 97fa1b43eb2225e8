import { KeyLimiter } from './core/limits/key-limiter.ts'
import type { Limiter } from './ports/limiter.ts'

/** Limits per key in the memory of this process. */
export function memoryLimiter(now: () => number): Limiter {
  const limiter = new KeyLimiter()
  return {
    reserve: (request) => limiter.reserve(request, now()),
    settle: (settlement) => limiter.settle(settlement, now()),
  }
}
