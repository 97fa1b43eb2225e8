import { nextDepth } from './prefix-filter.ts'
import { NODE_STRIDE, OFFSET } from './block-tree.ts'
import { type Holdings, HELD, HOLDING_STRIDE, NEXT, NODE, NONE, PARENT_HOLDING, STAMP } from './holdings.ts'

/** Maximum runs visited per requested lane: a run between two sampled depths yields none. */
const RUNS_PER_LANE = 4

/**
 * Low lanes of held blocks at sampled depths: live ones first, engines in turn, then the last used. Shallow depths of
 * a prompt come before deep ones. O(sample size).
 */
export function samplePrefixes(holdings: Holdings, limit: number): Set<number> {
  const { shares } = holdings
  const sample = new PrefixSample(holdings, limit)
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

class PrefixSample {
  readonly lanes = new Set<number>()
  readonly #holdings: Holdings
  readonly #limit: number
  /** Depth at which each holding ends, so that none is visited twice. */
  readonly #ends = new Map<number, number>()

  constructor(holdings: Holdings, limit: number) {
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
    if (this.#holdings.isInvalid(holding)) return
    const before = tree.nodes.words[this.read(holding, NODE) * NODE_STRIDE + OFFSET]! - start - 1
    for (let depth = nextDepth(start); depth <= end && this.lanes.size < this.#limit; depth = nextDepth(depth)) {
      this.lanes.add(tree.arena.words[(before + depth) * 2]!)
    }
  }
}
