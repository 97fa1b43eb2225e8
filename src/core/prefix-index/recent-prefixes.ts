import { nextDepth } from '../routing/prefix-filter.ts'
import { NODE_STRIDE, OFFSET } from './block-tree.ts'
import type { KvEventIndex } from './kv-event-index.ts'
import { HELD, HOLDING_STRIDE, type EngineRuns, NEXT, NODE, NONE, PARENT_HOLDING, STAMP } from './engine-runs.ts'

/** Maximum runs visited per requested lane: a run between two sampled depths yields none. */
const RUNS_PER_LANE = 4
/** Capacity for lanes of completed prompts on engines with KV events, twice. */
const MAX_EXPORTED = 8192

/**
 * Low lanes of held blocks at sampled depths: live ones first, engines in turn, then the last used. Shallow depths of
 * a prompt come before deep ones. O(sample size).
 */
export function samplePrefixes(holdings: EngineRuns, limit: number): Set<number> {
  const { shares } = holdings
  const sample = new Sample(holdings, limit)
  const turn = shares.map(({ firstLive }) => firstLive)
  for (const holding of turn) if (holding !== NONE && sample.hasRoom) turn.push(sample.add(holding))
  const heads = shares.map(({ first }) => first).filter((holding) => holding !== NONE)
  while (heads.length > 0 && sample.hasRoom) {
    let newest = 0
    // Stamps wrap around: compare by difference.
    for (let at = 1; at < heads.length; at++)
      if (((sample.read(heads[at]!, STAMP) - sample.read(heads[newest]!, STAMP)) | 0) > 0) newest = at
    let holding = heads[newest]!
    const stamp = sample.read(holding, STAMP)
    while (holding !== NONE && sample.read(holding, STAMP) === stamp) holding = sample.add(holding)
    if (holding === NONE) heads.splice(newest, 1)
    else heads[newest] = holding
  }
  return sample.lanes
}

class Sample {
  readonly lanes = new Set<number>()
  readonly #holdings: EngineRuns
  readonly #limit: number
  /** Depth at which each holding ends, so that none is visited twice. */
  readonly #ends = new Map<number, number>()

  constructor(holdings: EngineRuns, limit: number) {
    this.#holdings = holdings
    this.#limit = limit
  }

  get hasRoom(): boolean {
    return this.lanes.size < this.#limit && this.#ends.size < this.#limit * RUNS_PER_LANE
  }

  read(holding: number, field: number): number {
    return this.#holdings.records.words[holding * HOLDING_STRIDE + field]!
  }

  /** Samples the engine's holdings up to this stamp. Returns the next one of the list. */
  add(holding: number): number {
    const climbed: number[] = []
    for (let at = holding; at !== NONE && !this.#ends.has(at); at = this.read(at, PARENT_HOLDING)) climbed.push(at)
    for (let below = climbed.pop(); below !== undefined; below = climbed.pop()) this.#addRun(below)
    return this.read(holding, NEXT)
  }

  #addRun(holding: number): void {
    const { tree } = this.#holdings
    const start = this.#ends.get(this.read(holding, PARENT_HOLDING)) ?? 0
    const end = start + this.read(holding, HELD)
    this.#ends.set(holding, end)
    // Invalidated holdings end with their requests.
    if (this.#holdings.isDoomed(holding)) return
    const before = tree.nodes.words[this.read(holding, NODE) * NODE_STRIDE + OFFSET]! - start - 1
    for (let depth = nextDepth(start); depth <= end && this.lanes.size < this.#limit; depth = nextDepth(depth)) {
      this.lanes.add(tree.arena.words[(before + depth) * 2]!)
    }
  }
}

/**
 * Blocks of recent prompts on engines with KV events. Events have no depth, and booked blocks are dropped when events
 * arrive, so blocks at sampled depths are stored here by low lane.
 */
export class RecentPrefixes {
  #recent = new Map<number, number>()
  #before = this.#recent

  ended(blocks: Uint32Array): void {
    for (let depth = 1; depth * 2 <= blocks.length; depth = nextDepth(depth))
      this.#recent.set(blocks[depth * 2 - 2]!, blocks[depth * 2 - 1]!)
    if (this.#recent.size < MAX_EXPORTED) return
    this.#before = this.#recent
    this.#recent = new Map()
  }

  /** Returns those that an engine still holds. */
  addTo(lanes: Set<number>, limit: number, exact: KvEventIndex): void {
    for (const exported of [this.#recent, this.#before]) {
      for (const [lo, hi] of exported) {
        if (lanes.size >= limit) return
        if (exact.isAnywhere(lo, hi)) lanes.add(lo)
      }
    }
  }
}
