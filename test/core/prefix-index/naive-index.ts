interface Entry {
  live: number
  doomed: boolean
  /** Order of the block's release, also within one request. */
  stamp: number
  /** Number of releases before it. */
  released: number
}

export interface NaivePin {
  readonly engine: number
  readonly keys: readonly string[]
}

/** Model of PrefixIndex: one Map of blocks per engine, always scanned in full. */
export class NaiveIndex {
  readonly engines: { readonly blocks: Map<string, Entry>; capacity: number }[] = []
  readonly #maxEntries: number
  #clock = 0
  releases = 0

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries
  }

  addEngine(capacity: number): number {
    return this.engines.push({ blocks: new Map(), capacity }) - 1
  }

  static keys(content: readonly (string | number)[]): string[] {
    return content.map((_, at) => content.slice(0, at + 1).join('/'))
  }

  cached(engine: number, content: readonly (string | number)[]): number {
    return leading(NaiveIndex.keys(content), (key) => this.engines[engine]!.blocks.get(key)?.doomed === false)
  }

  live(engine: number, content: readonly (string | number)[]): number {
    return leading(NaiveIndex.keys(content), (key) => (this.engines[engine]!.blocks.get(key)?.live ?? 0) > 0)
  }

  cachedBlocks(engine: number): number {
    return [...this.engines[engine]!.blocks.values()].filter((entry) => !entry.doomed).length
  }

  liveBlocks(engine: number): number {
    return [...this.engines[engine]!.blocks.values()].filter((entry) => entry.live > 0).length
  }

  lastUsed(engine: number, content: readonly (string | number)[]): number {
    const { blocks } = this.engines[engine]!
    const keys = NaiveIndex.keys(content)
    const deepest = blocks.get(keys[leading(keys, (key) => blocks.has(key)) - 1] ?? '')
    return this.cached(engine, content) === 0 || deepest === undefined || deepest.live > 0
      ? this.releases
      : deepest.released
  }

  usedSince(engine: number, release: number): number {
    return [...this.engines[engine]!.blocks.values()].filter((entry) => entry.live > 0 || entry.released > release)
      .length
  }

  entries(): number {
    return this.engines.reduce((sum, engine) => sum + engine.blocks.size, 0)
  }

  pin(engine: number, content: readonly (string | number)[]): NaivePin {
    const { blocks } = this.engines[engine]!
    const liveEntries = this.engines.flatMap((one) => [...one.blocks.values()]).filter((entry) => entry.live > 0).length
    const keys = NaiveIndex.keys(content).slice(0, Math.max(0, this.#maxEntries - liveEntries))
    for (const key of keys) {
      const entry = blocks.get(key) ?? { live: 0, doomed: false, stamp: 0, released: 0 }
      entry.live++
      entry.doomed = false
      blocks.set(key, entry)
    }
    this.#enforce(engine)
    return { engine, keys }
  }

  release(pin: NaivePin): void {
    this.releases++
    const { blocks } = this.engines[pin.engine]!
    for (const key of [...pin.keys].reverse()) {
      const entry = blocks.get(key)!
      entry.live--
      if (entry.live > 0) continue
      if (entry.doomed) blocks.delete(key)
      // Later blocks are released first, so that the end of a prompt is evicted before its start.
      else {
        entry.stamp = ++this.#clock
        entry.released = this.releases
      }
    }
    this.#enforce(pin.engine)
  }

  setCapacity(engine: number, capacity: number): void {
    this.engines[engine]!.capacity = capacity
    this.#enforce(engine)
  }

  flush(engine: number): void {
    for (const [key, entry] of this.engines[engine]!.blocks) {
      if (entry.live === 0) this.engines[engine]!.blocks.delete(key)
      else entry.doomed = true
    }
  }

  #enforce(engine: number): void {
    const own = this.engines[engine]!
    while (this.cachedBlocks(engine) > own.capacity && evictOldest([own.blocks])) continue
    while (this.entries() > this.#maxEntries && evictOldest(this.engines.map((one) => one.blocks))) continue
  }
}

function evictOldest(tables: readonly Map<string, Entry>[]): boolean {
  let oldest: { table: Map<string, Entry>; key: string; stamp: number } | null = null
  for (const table of tables) {
    for (const [key, { live, stamp }] of table) {
      if (live === 0 && (oldest === null || stamp < oldest.stamp)) oldest = { table, key, stamp }
    }
  }
  return oldest?.table.delete(oldest.key) ?? false
}

function leading(keys: readonly string[], holds: (key: string) => boolean): number {
  const end = keys.findIndex((key) => !holds(key))
  return end === -1 ? keys.length : end
}
