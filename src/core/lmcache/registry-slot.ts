import type { Admission } from '../contract/admission.ts'
import type { PoolConfig } from '../contract/pool-config.ts'
import { CacheRegistry } from './cache-registry.ts'
import type { RegistryAnswer, RegistryCall } from './registry-call.ts'

/** Adds what LMCache servers have reported to an admission. */
export type AddHints = (admission: Admission, now: number) => Admission

/** Place of a pool's LMCache registry, which begins with the first call of a server. */
export class RegistrySlot {
  readonly #opened: (addHints: AddHints) => void
  #registry: CacheRegistry | null = null
  #pool: PoolConfig | null = null

  /** @param opened called once, when the registry begins */
  constructor(opened: (addHints: AddHints) => void) {
    this.#opened = opened
  }

  configure(pool: PoolConfig): void {
    this.#pool = pool
    this.#registry?.configure(pool)
  }

  call(call: RegistryCall, now: number): RegistryAnswer {
    this.#registry ??= this.#open()
    return this.#registry.call(call, now)
  }

  #open(): CacheRegistry {
    const registry = new CacheRegistry()
    if (this.#pool !== null) registry.configure(this.#pool)
    this.#opened((admission, now) => registry.withHints(admission, now))
    return registry
  }
}
