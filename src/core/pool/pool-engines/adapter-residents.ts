import type { AdapterLoad } from '../../contract/placement.ts'

/**
 * Time for which reports of the server do not change what was done, ms: its list of models is read every 30 s. Also the
 * time after a failed load in which the server is not asked to load the adapter again.
 */
const SETTLE_MS = 60_000

const RETRY_MS = 30_000

type ResidentState =
  /** The server has it. */
  | 'loaded'
  /** A gateway loads it. */
  | 'loading'
  /** A gateway unloads it. */
  | 'leaving'
  /** The server could not load it. */
  | 'failed'
  | 'absent'

interface Resident {
  state: ResidentState
  /** Live requests. */
  live: number
  /** Number of its last use. */
  usedAt: number
  /** When the state changed, ms since the epoch. */
  changedAt: number
}

/** Whether a server can take a request for an adapter. */
type AdapterPlace = 'here' | 'room' | 'full' | 'failed'

/** LoRA adapters that gateways load on one server. Its ranks share them. */
export class AdapterResidents {
  readonly #adapters = new Map<string, Resident>()
  /** Engine whose digest shows them: the first rank of a server. */
  shownBy = ''
  readonly counts = { loads: 0, unloads: 0, failures: 0 }
  #manages: ReadonlySet<string> = new Set()
  #max = 1
  #uses = 0

  configure(adapters: readonly string[], maxPerEngine: number): void {
    this.#manages = new Set(adapters)
    this.#max = maxPerEngine
  }

  /** Whether gateways may load and unload the adapter. */
  manages(adapter: string): boolean {
    return this.#manages.has(adapter)
  }

  placeFor(adapter: string, now: number): AdapterPlace {
    const { state, changedAt } = this.#adapters.get(adapter) ?? ABSENT
    if (state === 'loaded' || state === 'loading') return 'here'
    if (state === 'failed' && now - changedAt < RETRY_MS) return 'failed'
    if (state === 'leaving' && now - changedAt < SETTLE_MS) return 'full'
    return this.#resident().length < this.#max || this.#oldestUnused() !== null ? 'room' : 'full'
  }

  /** Records a request. Returns what a gateway does before it is sent; null: the adapter is loaded. */
  begin(adapter: string, now: number): AdapterLoad | null {
    const resident = this.#entry(adapter)
    resident.live += 1
    resident.usedAt = ++this.#uses
    if (resident.state === 'loaded') return null
    const unload: string[] = []
    if (resident.state !== 'loading') {
      while (this.#resident().length >= this.#max) {
        const oldest = this.#oldestUnused()
        if (oldest === null) break
        change(this.#entry(oldest), 'leaving', now)
        unload.push(oldest)
      }
      change(resident, 'loading', now)
    }
    return { load: adapter, unload }
  }

  /**
   * Records a request that was placed before, or elsewhere.
   * @param load what its gateway does; null: the adapter was loaded
   */
  resume(adapter: string, load: AdapterLoad | null, now: number): void {
    const resident = this.#entry(adapter)
    resident.live += 1
    resident.usedAt = ++this.#uses
    for (const one of load?.unload ?? []) change(this.#entry(one), 'leaving', now)
    if (load === null) change(resident, 'loaded', now)
    else if (resident.state !== 'loaded') change(resident, 'loading', now)
  }

  end(adapter: string, now: number): void {
    const resident = this.#adapters.get(adapter)
    if (resident === undefined) return
    resident.live = Math.max(0, resident.live - 1)
    // Its gateway has ended without a result.
    if (resident.live === 0 && resident.state === 'loading') change(resident, 'absent', now)
  }

  /** Records the result of a load, before which other adapters were unloaded. */
  settled(adapter: string, isLoaded: boolean, now: number): void {
    for (const one of this.#adapters.values()) {
      if (one.state !== 'leaving') continue
      change(one, 'absent', now)
      this.counts.unloads += 1
    }
    const resident = this.#entry(adapter)
    // The ranks of a server get the same report.
    if (resident.state === 'loading') this.counts[isLoaded ? 'loads' : 'failures'] += 1
    change(resident, isLoaded ? 'loaded' : 'failed', now)
  }

  /** The server lacked an adapter that it should have. */
  lacked(adapter: string, now: number): void {
    change(this.#entry(adapter), 'absent', now)
  }

  /** Records the adapters that the server lists. */
  reported(listed: readonly string[], now: number): void {
    for (const adapter of listed) {
      if (!this.manages(adapter)) continue
      const resident = this.#entry(adapter)
      if (resident.state === 'loading' || now - resident.changedAt < SETTLE_MS) continue
      if (resident.state !== 'loaded') change(resident, 'loaded', now)
    }
    for (const [adapter, resident] of this.#adapters)
      if (resident.state === 'loaded' && now - resident.changedAt >= SETTLE_MS && !listed.includes(adapter))
        change(resident, 'absent', now)
  }

  /** The server may have started again, without adapters. */
  restarted(): void {
    for (const resident of this.#adapters.values()) change(resident, 'absent', -Infinity)
  }

  /** Adapters that the server has. */
  get loaded(): readonly string[] {
    return [...this.#adapters].flatMap(([adapter, { state }]) => (state === 'loaded' ? [adapter] : []))
  }

  #resident(): readonly [string, Resident][] {
    return [...this.#adapters].filter(([, { state }]) => state === 'loaded' || state === 'loading')
  }

  /** Least recently used adapter without live requests. */
  #oldestUnused(): string | null {
    let oldest: readonly [string, Resident] | null = null
    for (const one of this.#resident())
      if (one[1].live === 0 && (oldest === null || one[1].usedAt < oldest[1].usedAt)) oldest = one
    return oldest?.[0] ?? null
  }

  #entry(adapter: string): Resident {
    const known = this.#adapters.get(adapter)
    if (known !== undefined) return known
    const added: Resident = { ...ABSENT }
    this.#adapters.set(adapter, added)
    return added
  }
}

const ABSENT: Readonly<Resident> = { state: 'absent', live: 0, usedAt: 0, changedAt: -Infinity }

function change(resident: Resident, state: ResidentState, now: number): void {
  resident.state = state
  resident.changedAt = now
}
