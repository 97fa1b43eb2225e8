import type { EngineStats } from '../../contract/engine-signal.ts'

/** LoRA adapters that an engine probably has loaded: from its own report and from the requests sent since. */
export class LoadedAdapters {
  #reported: ReadonlySet<string> = new Set()
  #max: number | null = null
  /** Live requests by adapter. */
  readonly #live = new Map<string, number>()
  /** Adapters sent, least recently used first; the engine keeps them while it has room. */
  readonly #sent = new Set<string>()
  /** Stamps of the index at which gateways unloaded adapters. */
  readonly #unloadedAt = new Map<string, number>()

  observed(adapters: NonNullable<EngineStats['adapters']>): void {
    this.#reported = new Set(adapters.running)
    this.#max = adapters.max
  }

  /** A gateway unloads it. @param stamp current stamp of the index */
  unloaded(adapter: string, stamp: number): void {
    this.#unloadedAt.set(adapter, stamp)
  }

  /** Whether blocks that were last used at this stamp are those of an earlier copy of the adapter. */
  isCold(adapter: string, lastUsed: number): boolean {
    const unloadedAt = this.#unloadedAt.get(adapter)
    return unloadedAt !== undefined && ((lastUsed - unloadedAt) | 0) <= 0
  }

  begin(adapter: string): void {
    this.#live.set(adapter, (this.#live.get(adapter) ?? 0) + 1)
    this.#sent.delete(adapter)
    this.#sent.add(adapter)
    const room = Math.max(this.#max ?? SENT_KEPT, this.#live.size)
    for (const oldest of this.#sent) {
      if (this.#sent.size <= room) break
      if (!this.#live.has(oldest)) this.#sent.delete(oldest)
    }
  }

  end(adapter: string): void {
    const left = (this.#live.get(adapter) ?? 1) - 1
    if (left === 0) this.#live.delete(adapter)
    else this.#live.set(adapter, left)
  }

  /** Affinity: 1 loaded or none needed, 0 must be loaded, -1 no room, because the maximum is running. */
  fit(adapter: string | null): 1 | 0 | -1 {
    if (adapter === null || this.#reported.has(adapter) || this.#sent.has(adapter)) return 1
    return this.#max !== null && this.#live.size >= this.#max ? -1 : 0
  }
}

/** Adapters remembered for an engine that does not report its maximum. */
const SENT_KEPT = 64
