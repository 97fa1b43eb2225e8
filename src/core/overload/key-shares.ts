/** Time constant of the work of a key, ms. */
const WORK_MS = 30_000

/** Keys without work for this long, ms, are not active. */
const ACTIVE_MS = 60_000

/** Further keys replace the least recently active one. */
const MAX_KEYS = 4096

/** Excess over the mean that counts as more than a share. */
const EXCESS = 1.05

interface KeyWork {
  /** Decayed seconds of engine work at `at`. */
  workS: number
  at: number
}

/** Predicted engine work of each key, decayed, to find keys that use more than their share. */
export class KeyShares {
  /** Least recently active first. */
  readonly #keys = new Map<string, KeyWork & { readonly weight: number }>()
  /** Sum over the keys. */
  #weight = 0
  readonly #total: KeyWork = { workS: 0, at: 0 }

  /** Number of active keys. */
  active(now: number): number {
    for (const [key, { at }] of this.#keys) {
      if (now - at <= ACTIVE_MS) break
      this.#forget(key)
    }
    return this.#keys.size
  }

  /** @param weight share of the key relative to others */
  charge(key: string, workS: number, now: number, weight = 1): void {
    const known = this.#keys.get(key) ?? { workS: 0, at: now }
    this.#forget(key)
    if (this.#keys.size >= MAX_KEYS) this.#forget(this.#keys.keys().next().value!)
    this.#keys.set(key, { ...added(known, workS, now), weight })
    this.#weight += weight
    added(this.#total, workS, now)
  }

  /** Whether the key has used more than its share of the work of the active keys, while others are active. */
  isOver(key: string, now: number): boolean {
    const active = this.active(now)
    const own = this.#keys.get(key)
    if (own === undefined || active < 2) return false
    return decayed(own, now) > (EXCESS * own.weight * decayed(this.#total, now)) / this.#weight
  }

  #forget(key: string): void {
    this.#weight -= this.#keys.get(key)?.weight ?? 0
    this.#keys.delete(key)
  }
}

const decayed = ({ workS, at }: KeyWork, now: number): number => workS * Math.exp(-Math.max(0, now - at) / WORK_MS)

function added(work: KeyWork, workS: number, now: number): KeyWork {
  work.workS = decayed(work, now) + workS
  work.at = Math.max(work.at, now)
  return work
}
