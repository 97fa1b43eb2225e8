import { SlidingCount } from '../../sliding-count.ts'

/** Report of an engine about all its requests, from any source. */
export interface EngineReport {
  readonly running: number
  readonly waiting: number
  /** KV blocks of running requests; null: not reported. */
  readonly usedBlocks: number | null
}

/** The gateway's own part of the load at the time of a report. */
export interface OwnLoad {
  readonly activeBlocks: number
  /** Requests without a first token. */
  readonly queued: number
  /** Seconds of a usual prefill. Prompts of other sources are assumed to take as long. */
  readonly usualPrefillS: number
  /** Seconds of prefill work done so far. */
  readonly prefilledS: number
  /** Time of the report, milliseconds. */
  readonly at: number
}

/** The gateway's own prefill work on the engine. */
export interface OwnPrefills {
  /** Seconds of it done so far. */
  prefilledS(now: number): number
}

/** Load of an engine from other sources. */
export interface ForeignEstimate {
  /** Running and waiting requests. */
  readonly requests: number
  /** Requests that wait for their prefill. */
  readonly waiting: number
  /** Seconds of their prefills. */
  readonly queuedS: number
  /** KV blocks. */
  readonly blocks: number
}

const NO_OWN_LOAD: OwnLoad = { activeBlocks: 0, queued: 0, usualPrefillS: 0, prefilledS: 0, at: -Infinity }

export const NO_FOREIGN_LOAD: ForeignEstimate = { requests: 0, waiting: 0, queuedS: 0, blocks: 0 }

/** Time by which a report may be older or younger than the bookings, milliseconds: engines report once per step. */
const REPORT_LAG_MS = 500

/** Maximum of sequences counted for one request. */
const MAX_COUNTED = 64

/** Half-life of the mean load, milliseconds. */
const MEAN_HALF_LIFE_MS = 10_000

/** Mean requests below which an engine no longer counts as shared with other sources. */
const MIN_MEAN = 0.05

/** Time constant at which a report of requests and blocks gives way to the mean, milliseconds. */
const REQUESTS_KEPT_MS = 5_000

/** Time constant of a report of queued prefills, in usual prefills: after a few of them the queue is another one. */
const QUEUE_KEPT_PREFILLS = 2

/** Share of the used blocks below which a difference is rounding: engines and gateway count partial blocks. */
const MIN_BLOCK_SHARE = 0.02

/** Latest value of reports, and their mean. */
class ReportedValue {
  latest = 0
  mean = 0

  report(value: number, meanShare: number): void {
    this.latest = value
    this.mean += meanShare * (value - this.mean)
  }

  /** @param kept weight of the latest value */
  blend(kept: number): number {
    return this.mean + kept * (this.latest - this.mean)
  }
}

/**
 * Estimate of an engine's load from other sources: what the engine reports beyond the gateway's own bookings. Without
 * other sources it is exactly zero. Requests that appear between two reports are prefills that have just begun; their
 * time runs while the engine has no own prefill to do. With the age of the report, the estimate approaches the mean.
 */
export class ForeignLoad {
  readonly #begun = new SlidingCount(REPORT_LAG_MS)
  readonly #ended = new SlidingCount(REPORT_LAG_MS)
  readonly #requests = new ReportedValue()
  readonly #queuedS = new ReportedValue()
  readonly #blocks = new ReportedValue()
  /** Own requests that the engine has now, and the own load at the last report. */
  #own = 0
  #reported = NO_OWN_LOAD
  /** Time of the last report, and of the last one with a new request. */
  #at = -Infinity
  #arrivedAt = -Infinity

  /** Records own requests that the engine has from now on; parallel answers count each. */
  began(sequences: number, now: number): void {
    this.#own += sequences
    addSequences(this.#begun, sequences, now)
  }

  /** Records a first token of an own request: prompts that were there before it have been prefilled. */
  firstToken(bookedAt: number): void {
    if (bookedAt >= this.#arrivedAt) this.#queuedS.latest = 0
  }

  ended(sequences: number, now: number): void {
    this.#own -= sequences
    addSequences(this.#ended, sequences, now)
  }

  observed({ running, waiting, usedBlocks }: EngineReport, own: OwnLoad): void {
    const { at, usualPrefillS } = own
    const elapsedS = (at - this.#at) / 1000
    const meanShare = 1 - 2 ** ((-1000 * elapsedS) / MEAN_HALF_LIFE_MS)
    const before = this.#requests.latest
    const requests = this.#requestsBeyond(running + waiting, at)
    const arrived = Math.max(0, requests - before)
    const leftS = this.#leftS(at, own.prefilledS) + arrived * arrivedS(elapsedS, usualPrefillS)
    const minS = waitingOf(requests, waiting, own.queued) * usualPrefillS
    this.#requests.report(requests, meanShare)
    this.#queuedS.report(Math.min(requests * usualPrefillS, Math.max(minS, leftS)), meanShare)
    this.#blocks.report(requests === 0 ? 0 : blocksBeyond(usedBlocks, own.activeBlocks), meanShare)
    if (arrived > 0) this.#arrivedAt = at
    this.#reported = own
    this.#at = at
  }

  /** Time of the last report, milliseconds; -Infinity: none. */
  get at(): number {
    return this.#at
  }

  /** Whether other sources have used the engine lately. */
  get isPresent(): boolean {
    return this.#requests.latest > 0 || this.#requests.mean > MIN_MEAN
  }

  /** Whether another source was ever seen; until then all values are 0. */
  get #wasSeen(): boolean {
    return this.#requests.latest !== 0 || this.#requests.mean !== 0
  }

  /** Running and waiting requests. */
  requests(now: number): number {
    if (!this.#wasSeen) return 0
    return this.#requests.blend(this.#keptAt(now, REQUESTS_KEPT_MS))
  }

  estimate(now: number, own: OwnPrefills): ForeignEstimate {
    if (!this.#wasSeen) return NO_FOREIGN_LOAD
    const { usualPrefillS } = this.#reported
    const kept = this.#keptAt(now, QUEUE_KEPT_PREFILLS * usualPrefillS * 1000)
    const queuedS = this.#leftS(now, own.prefilledS(now)) + (1 - kept) * this.#queuedS.mean
    return {
      requests: this.requests(now),
      waiting: usualPrefillS === 0 ? 0 : queuedS / usualPrefillS,
      queuedS,
      blocks: this.#blocks.blend(this.#keptAt(now, REQUESTS_KEPT_MS)),
    }
  }

  /** The number nearest to the last one that the report allows: it may still, or not yet, count own requests. */
  #requestsBeyond(reported: number, at: number): number {
    const beyond = reported - this.#own
    const min = Math.max(0, beyond - this.#ended.count(at))
    const max = Math.max(0, beyond + this.#begun.count(at))
    return Math.min(max, Math.max(min, this.#requests.latest))
  }

  /** Seconds that remain of the prefills of the last report: an engine works on them or on own ones. */
  #leftS(now: number, prefilledS: number): number {
    const ownS = Math.max(0, prefilledS - this.#reported.prefilledS)
    return Math.max(0, this.#queuedS.latest - Math.max(0, (now - this.#at) / 1000 - ownS))
  }

  #keptAt(now: number, timeMs: number): number {
    return Math.exp(-Math.max(0, now - this.#at) / Math.max(1, timeMs))
  }
}

function addSequences(counter: SlidingCount, sequences: number, now: number): void {
  for (let at = 0; at < Math.min(sequences, MAX_COUNTED); at++) counter.add(now)
}

/** Mean seconds that remain of a prefill which began at an unknown time within the last `elapsedS`. */
function arrivedS(elapsedS: number, prefillS: number): number {
  return elapsedS < prefillS ? prefillS - elapsedS / 2 : prefillS ** 2 / (2 * elapsedS)
}

/** Share of other sources in the waiting requests, which are among those that have no first token. */
function waitingOf(requests: number, waiting: number, queued: number): number {
  return requests === 0 ? 0 : Math.max(waiting - queued, (waiting * requests) / (requests + queued))
}

function blocksBeyond(usedBlocks: number | null, activeBlocks: number): number {
  const blocks = (usedBlocks ?? 0) - activeBlocks
  return usedBlocks === null || blocks < MIN_BLOCK_SHARE * usedBlocks ? 0 : blocks
}
