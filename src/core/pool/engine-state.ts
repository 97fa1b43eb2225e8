import type { EngineRef } from './leg.ts'
import { type Circuit, closed } from './circuit.ts'
import type { EngineSpec, EngineStats, Usage } from '../contract/contract.ts'
import { EngineSignals } from './engine-signals.ts'

/** Share of a new sample in the decayed mean of TTFT. */
const TTFT_SHARE = 0.1
/** TTFTs kept for the eye. */
const TTFTS_KEPT = 40
/** A request's share in the decayed sums behind the hit rate. */
const HIT_SHARE = 0.03

/** Everything the cluster knows of one engine but its books. */
export class EngineState implements EngineRef {
  readonly slot: number
  readonly signals: EngineSignals
  spec: EngineSpec
  circuit: Circuit = closed
  /** What the last probe said; engines are taken for healthy until one says otherwise. */
  healthy = true
  asleep = false
  draining = false
  /** Gone from the configuration; kept until its last booking ends. */
  removed = false
  stats: { readonly value: EngineStats; readonly at: number } | null = null
  probedAt = 0
  /** When output of any of its answers came last, milliseconds since the epoch. */
  movedAt = -Infinity
  ttftMs: number | null = null
  requestsTotal = 0
  failuresTotal = 0
  /** Failures that would have opened its circuit but for a limit of ejection. */
  ejectionsWithheld = 0
  /** Of the totals, what came from a snapshot. */
  countedBefore = { requests: 0, failures: 0 }
  readonly recentTtftMs: number[] = []
  /** Decayed sums: a ratio of sums weighs long prompts as much as they cost. */
  #promptTokens = 0
  #cachedTokens = 0
  /** Bookings that name it, whatever part they are in. */
  bookings = 0

  constructor(slot: number, spec: EngineSpec) {
    this.slot = slot
    this.spec = spec
    this.signals = new EngineSignals(spec.id)
  }

  /** It is given no new requests: by an operator's word, or by its configuration. */
  get isLeaving(): boolean {
    return this.removed || this.draining || this.spec.weight === 0
  }

  sawTtft(ms: number): void {
    this.ttftMs = this.ttftMs === null ? ms : this.ttftMs + TTFT_SHARE * (ms - this.ttftMs)
    this.recentTtftMs.push(ms)
    if (this.recentTtftMs.length > TTFTS_KEPT) this.recentTtftMs.shift()
  }

  /** What the engine said its cache saved of a prompt. */
  sawUsage({ promptTokens, cachedTokens }: Usage): void {
    if (cachedTokens === null) return
    this.#promptTokens += promptTokens - HIT_SHARE * this.#promptTokens
    this.#cachedTokens += Math.min(cachedTokens, promptTokens) - HIT_SHARE * this.#cachedTokens
  }

  /** Share of prompt tokens found in its cache, 0..1; null: it never said. */
  get hitRate(): number | null {
    return this.#promptTokens > 0 ? this.#cachedTokens / this.#promptTokens : null
  }
}

/** The engines of a pool by id, each with a slot that nobody else has. */
export class EngineTable {
  readonly #byId = new Map<string, EngineState>()
  readonly #freeSlots: number[] = []
  #all: readonly EngineState[] = []
  #slots = 0

  add(spec: EngineSpec): EngineState {
    const record = new EngineState(this.#freeSlots.pop() ?? this.#slots++, spec)
    this.#byId.set(spec.id, record)
    this.#all = [...this.#all, record]
    return record
  }

  remove(record: EngineState): void {
    this.#byId.delete(record.spec.id)
    this.#freeSlots.push(record.slot)
    this.#all = this.#all.filter((one) => one !== record)
  }

  get(id: string): EngineState | undefined {
    return this.#byId.get(id)
  }

  /** In the order they were added, removed ones that still drain included. A list once given out does not change. */
  all(): readonly EngineState[] {
    return this.#all
  }
}
