import { SlidingCount } from './sliding-count.ts'

/** Report of an engine about all its requests, whoever sent them. */
export interface EngineReport {
  readonly running: number
  readonly waiting: number
  /** KV blocks of running requests; null: not reported. */
  readonly usedBlocks: number | null
}

/**
 * Time by which an engine's report may be older than the bookings, milliseconds: a request that ended within it may
 * still be in the report.
 */
const REPORT_LAG_MS = 500
/** Maximum of ended sequences counted for one request. */
const MOST_ENDED = 64
/** Weight of the latest report: other sources' queues change between reports. */
const LATEST_SHARE = 0.5
/** Share of the capacity below which a difference in blocks is rounding: engines and gateway count partial blocks. */
const LEAST_BLOCK_SHARE = 0.02

/** Load of an engine from other sources. */
export interface Foreign {
  /** Running and waiting requests. */
  readonly requests: number
  /** Requests that wait for their prefill. */
  readonly waiting: number
  /** KV blocks. */
  readonly blocks: number
}

export const NO_FOREIGN_LOAD: Foreign = { requests: 0, waiting: 0, blocks: 0 }

/**
 * Estimate of an engine's load from other sources: what the engine reports beyond the gateway's own bookings. Without
 * other
 * sources it is exactly zero.
 */
export class ForeignLoad implements Foreign {
  readonly #ended = new SlidingCount(REPORT_LAG_MS)
  #own = 0
  #requests = 0
  #waiting = 0
  #blocks = 0
  #at = -Infinity

  /** Records own requests that the engine has from now on; parallel answers count each. */
  began(sequences: number): void {
    this.#own += sequences
  }

  ended(sequences: number, now: number): void {
    this.#own -= sequences
    for (let at = 0; at < Math.min(sequences, MOST_ENDED); at++) this.#ended.add(now)
  }

  /** @param activeBlocks the gateway's own part of the used blocks */
  observed({ running, waiting, usedBlocks }: EngineReport, activeBlocks: number, now: number): void {
    const reported = running + waiting
    const requests = Math.max(0, reported - this.#own - this.#ended.count(now))
    const foreignShare = reported === 0 ? 0 : requests / reported
    const share = this.#at === -Infinity ? 1 : LATEST_SHARE
    this.#requests += share * (requests - this.#requests)
    this.#waiting += share * (waiting * foreignShare - this.#waiting)
    const blocks = requests === 0 || usedBlocks === null ? 0 : usedBlocks - activeBlocks
    const isRounding = usedBlocks === null || blocks < LEAST_BLOCK_SHARE * usedBlocks
    this.#blocks += share * ((isRounding ? 0 : blocks) - this.#blocks)
    this.#at = now
  }

  /** Time of the last report, milliseconds; -Infinity: none. */
  get at(): number {
    return this.#at
  }

  get requests(): number {
    return this.#requests
  }

  get waiting(): number {
    return this.#waiting
  }

  get blocks(): number {
    return this.#blocks
  }
}
