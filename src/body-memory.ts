/** Bounds the memory of all request bodies of a process (`limits.buffered_bytes`). */
import type { LimitsConfig } from './config.ts'
import { Failure } from './failure.ts'
import type { KibCount } from './ports/kib-count.ts'

const KIB = 1024
/** Bodies up to this size may use the whole limit; larger ones leave a quarter of it. */
const SMALL_BYTES = 1024 * 1024
const RETRY_AFTER_MS = 1_000

type MemoryLimits = Pick<LimitsConfig, 'bodyBytes' | 'bufferedBytes'>

/** Memory of one request body. */
export interface BodyAllocation {
  /** Reserves memory for bytes that were read. Fails with `buffers_full` without effect. */
  grow(bytes: number): void
  /** Releases the memory, once. Later reservations are not counted. */
  release(): void
}

export class BodyMemory {
  readonly #count: KibCount
  #limitKib = 0
  #largeLimitKib = 0

  constructor(limits: MemoryLimits, count: KibCount) {
    this.#count = count
    this.adopt(limits)
  }

  /** Applies the limits to bodies that are read from now on. */
  adopt({ bodyBytes, bufferedBytes }: MemoryLimits): void {
    // One body of maximum size must fit into an idle gateway.
    const reserveBytes = Math.max(0, Math.min(bufferedBytes / 4, bufferedBytes - bodyBytes))
    this.#limitKib = Math.ceil(bufferedBytes / KIB)
    this.#largeLimitKib = Math.ceil((bufferedBytes - reserveBytes) / KIB)
  }

  /** Reserved bytes over all threads of the process, rounded up to KiB per body. */
  get bytes(): number {
    return this.#count.total() * KIB
  }

  open(): BodyAllocation {
    return new CountedAllocation(this)
  }

  /** Returns false if there is no room. `heldBytes`: size of the body including these. */
  reserve(kib: number, bodyBytes: number): boolean {
    this.#count.add(kib)
    if (this.#count.total() <= (bodyBytes > SMALL_BYTES ? this.#largeLimitKib : this.#limitKib)) return true
    this.#count.add(-kib)
    return false
  }

  release(kib: number): void {
    this.#count.add(-kib)
  }
}

class CountedAllocation implements BodyAllocation {
  readonly #memory: BodyMemory
  #bytes = 0
  #kib = 0
  #isReleased = false

  constructor(memory: BodyMemory) {
    this.#memory = memory
  }

  grow(bytes: number): void {
    if (this.#isReleased) return
    const bodyBytes = this.#bytes + bytes
    const kib = Math.ceil(bodyBytes / KIB) - this.#kib
    if (kib > 0 && !this.#memory.reserve(kib, bodyBytes)) {
      throw new Failure(
        'buffers_full',
        'The memory for request bodies is full (limits.buffered_bytes). Try again shortly.',
        { retryAfterMs: RETRY_AFTER_MS },
      )
    }
    this.#bytes = bodyBytes
    this.#kib += kib
  }

  release(): void {
    this.#isReleased = true
    if (this.#kib > 0) this.#memory.release(this.#kib)
    this.#bytes = this.#kib = 0
  }
}

/** Counts in one slot per thread, so that the exit of a thread resets only its own slot. */
export function countIn(slots: Int32Array, own = 0): KibCount {
  return {
    add: (kib) => void Atomics.add(slots, own, kib),
    total: () => {
      let sum = 0
      for (let i = 0; i < slots.length; i++) sum += Atomics.load(slots, i)
      return sum
    },
  }
}
