const FIRST_SLOTS = 64
const MAX_LOAD = 0.7

/**
 * Which engine holds which block, block by block, by the engines' own events. Unlike in an estimated cache, a block
 * may be there without those before it. One table from hash to a set of engines, so one walk along a prompt
 * answers for all engines at once.
 */
export class KvEventIndex {
  /** Two lanes per slot; both 0: free. A slot without engines is freed at the next rebuild. */
  #keys = new Uint32Array(FIRST_SLOTS * 2)
  /** Bit set of engines per slot. */
  #holders = new Uint32Array(FIRST_SLOTS)
  #wordsPerSlot = 1
  #usedSlots = 0
  readonly #counts: number[] = []
  readonly #clears: number[] = []
  #entries = 0

  /** Result of the last `match`, by engine: leading blocks it holds. */
  reach = new Int32Array(32)

  /** (block, engine) pairs. */
  get entries(): number {
    return this.#entries
  }

  get bytes(): number {
    return this.#keys.byteLength + this.#holders.byteLength
  }

  count(engine: number): number {
    return this.#counts[engine] ?? 0
  }

  /** Number of `clear` calls for the engine: its source must start again. */
  clears(engine: number): number {
    return this.#clears[engine] ?? 0
  }

  has(engine: number, lo: number, hi: number): boolean {
    return (
      engine >>> 5 < this.#wordsPerSlot &&
      (this.#holders[this.#slot(lo, hi) * this.#wordsPerSlot + (engine >>> 5)]! & (1 << (engine & 31))) !== 0
    )
  }

  /** Whether any engine holds it. */
  isAnywhere(lo: number, hi: number): boolean {
    const slot = this.#slot(lo, hi) * this.#wordsPerSlot
    return this.#holders.subarray(slot, slot + this.#wordsPerSlot).some(Boolean)
  }

  /** Marks the block as held. Idempotent. */
  set(engine: number, lo: number, hi: number, isHeld: boolean): void {
    if (isHeld) this.#makeRoom(engine)
    if (this.has(engine, lo, hi) === isHeld) return
    const slot = this.#slot(lo, hi)
    if (this.#keys[slot * 2] === 0 && this.#keys[slot * 2 + 1] === 0) {
      this.#keys[slot * 2] = lo
      this.#keys[slot * 2 + 1] = hi
      this.#usedSlots += 1
    }
    this.#holders[slot * this.#wordsPerSlot + (engine >>> 5)]! ^= 1 << (engine & 31)
    const change = isHeld ? 1 : -1
    this.#counts[engine] = this.count(engine) + change
    this.#entries += change
  }

  /** Adds blocks, two lanes each. false: not enough room for all. */
  setAll(engine: number, blocks: Uint32Array, isHeld: boolean, maxEntries = Infinity): boolean {
    for (let at = 0; at < blocks.length; at += 2) {
      if (this.#entries >= maxEntries) return false
      this.set(engine, blocks[at]!, blocks[at + 1]!, isHeld)
    }
    return true
  }

  /** Clears the engine's blocks. */
  clear(engine: number): void {
    if (this.count(engine) === 0) return
    for (let at = engine >>> 5; at < this.#holders.length; at += this.#wordsPerSlot)
      this.#holders[at]! &= ~(1 << (engine & 31))
    this.#entries -= this.count(engine)
    this.#counts[engine] = 0
    this.#clears[engine] = this.clears(engine) + 1
  }

  /** Fills `reach` for the first `count` blocks. */
  match(blocks: Uint32Array, count: number): void {
    const { reach } = this
    const words = this.#wordsPerSlot
    const remaining = new Uint32Array(words).fill(0xffff_ffff)
    for (let at = 0; ; at += 1) {
      const slot = at < count ? this.#slot(blocks[at * 2]!, blocks[at * 2 + 1]!) * words : -1
      let anyHolder = 0
      for (let word = 0; word < words; word += 1) {
        const holders = slot < 0 ? 0 : remaining[word]! & this.#holders[slot + word]!
        for (let lost = remaining[word]! ^ holders; lost !== 0; lost &= lost - 1)
          reach[word * 32 + 31 - Math.clz32(lost & -lost)] = at
        remaining[word] = holders
        anyHolder |= holders
      }
      if (anyHolder === 0) return
    }
  }

  /** Slot of the block, or the free slot for it. */
  #slot(lo: number, hi: number): number {
    const keys = this.#keys
    const mask = (keys.length >>> 1) - 1
    // The lanes are already hashes.
    let slot = (lo ^ (hi >>> 15)) & mask
    while ((keys[slot * 2] !== lo || keys[slot * 2 + 1] !== hi) && (keys[slot * 2] !== 0 || keys[slot * 2 + 1] !== 0))
      slot = (slot + 1) & mask
    return slot
  }

  #makeRoom(engine: number): void {
    const words = Math.max(this.#wordsPerSlot, (engine >>> 5) + 1)
    if (words > this.#wordsPerSlot || this.#usedSlots >= (this.#keys.length >>> 1) * MAX_LOAD) this.#rebuild(words)
  }

  /** Rebuilds without unheld blocks, with room for twice as many. */
  #rebuild(words: number): void {
    const [keys, holders, before] = [this.#keys, this.#holders, this.#wordsPerSlot]
    const held: number[] = []
    for (let slot = 0; slot < keys.length >>> 1; slot += 1) {
      if (holders.subarray(slot * before, (slot + 1) * before).some(Boolean)) held.push(slot)
    }
    let slots = FIRST_SLOTS
    while (slots * MAX_LOAD < held.length * 1.5) slots *= 2
    this.#keys = new Uint32Array(slots * 2)
    this.#holders = new Uint32Array(slots * words)
    this.#wordsPerSlot = words
    this.#usedSlots = held.length
    this.reach = new Int32Array(words * 32)
    for (const slot of held) {
      const to = this.#slot(keys[slot * 2]!, keys[slot * 2 + 1]!)
      this.#keys.set(keys.subarray(slot * 2, slot * 2 + 2), to * 2)
      this.#holders.set(holders.subarray(slot * before, (slot + 1) * before), to * words)
    }
  }
}
