import type { DecodeCostModel } from '../latency/decode-cost-model.ts'
import { STEP_TOKENS } from '../latency/prefill-cost-model.ts'

/** Prefill of a request, as it was booked. */
export interface ChargedPrefill {
  readonly newTokens: number
  /** Predicted duration alone, seconds. */
  readonly seconds: number
  /** Whether the end of the prefill is visible. */
  readonly streams: boolean
}

/** Output of a request, as it loads each step. */
export interface ChargedDecode {
  /** Parallel responses. */
  readonly sequences: number
  /** KV blocks that each step reads. */
  readonly blocks: number
}

/** Work of one request on one engine. Made by `prefill` or `decode`, ended once by `end`. */
export interface ChargedWork {
  readonly prefill: ChargedPrefill
  readonly decode: ChargedDecode
  phase: 'prefill' | 'decode' | 'ended'
  /** Share so far, seconds. */
  seconds: number
  /** Totals of the engine when the decode began. */
  perSequenceAt: number
  perBlockAt: number
  /** Prefills that arrived before and after it, while it is one. */
  previous: ChargedWork | null
  next: ChargedWork | null
}

const NO_PREFILL: ChargedPrefill = { newTokens: 0, seconds: 0, streams: true }

/**
 * Divides the time in which an engine works among its requests, so that the shares add up to it. A prefill gets the
 * time of its steps: engines prefill in order, and prompts of one step share it by their predicted seconds. The time
 * of a decode step is divided as the cost model composes it: the fixed part by sequences, the rest by sequences and by
 * the KV blocks that each one reads. Decodes that run during a prefill get their part of the longer steps.
 */
export class EngineTime {
  #at = 0
  /** Prefills, linked in order of arrival. */
  #head: ChargedWork | null = null
  #last: ChargedWork | null = null
  #prefills = 0
  /** Prefill time that no request has got yet, seconds. */
  #potS = 0
  #sequences = 0
  #blocks = 0
  #decodes = 0
  /** Time of all steps so far for one sequence, without its KV blocks, seconds. */
  #perSequence = 0
  /** Time of all steps so far for one KV block, seconds. */
  #perBlock = 0
  #pace: DecodeCostModel = { baseS: 1, perRequestS: 0, perBlockS: 0 }

  /** Starts a prefill, which the decode of the same request follows. */
  prefill(prefill: ChargedPrefill, decode: ChargedDecode, now: number): ChargedWork {
    this.#advance(now)
    const work = newWork(prefill, decode)
    this.#append(work)
    return work
  }

  /**
   * Starts a decode without a prefill.
   * @param earlierS time before `now` in which the engine has worked for it, if for no other request
   */
  decode(decode: ChargedDecode, now: number, earlierS = 0): ChargedWork {
    this.#advance(now)
    const work = newWork(NO_PREFILL, decode)
    if (this.#isIdle) work.seconds = earlierS
    this.#startDecode(work)
    return work
  }

  /** The first token of a request. No effect if it decodes or has ended. */
  firstToken(work: ChargedWork, now: number): void {
    this.#advance(now)
    if (work.phase !== 'prefill') return
    this.#endPrefill(work)
    this.#startDecode(work)
  }

  /** Ends the work of a request. Has effect once. */
  end(work: ChargedWork, now: number): void {
    this.#advance(now)
    if (work.phase === 'prefill') this.#endPrefill(work)
    else if (work.phase === 'decode') this.#endDecode(work)
    work.phase = 'ended'
  }

  /** Duration of a step of one sequence, seconds. */
  stepS({ sequences, blocks }: ChargedDecode): number {
    return this.#pace.baseS + this.#pace.perRequestS * sequences + this.#pace.perBlockS * blocks
  }

  /** Prices steps from now on. */
  setPace(pace: DecodeCostModel, now: number): void {
    if (pace === this.#pace) return
    this.#advance(now)
    this.#pace = pace
  }

  get #isIdle(): boolean {
    return this.#head === null && this.#decodes === 0
  }

  #advance(now: number): void {
    let leftS = Math.max(0, now - this.#at) / 1000
    this.#at = Math.max(this.#at, now)
    // Prefills whose end is not visible end when their predicted time has passed.
    for (let head = this.#head; head !== null && !head.prefill.streams; head = this.#head) {
      const share = this.#prefillShare(head)
      const untilEndS = Math.max(0, head.prefill.seconds - this.#potS) / share
      if (untilEndS > leftS) break
      this.#pass(untilEndS, share)
      leftS -= untilEndS
      this.#endPrefill(head)
      this.#startDecode(head)
    }
    if (leftS > 0 && !this.#isIdle) this.#pass(leftS, this.#head === null ? 0 : this.#prefillShare(this.#head))
  }

  /** Part of the time that prefills take of the steps, 0..1. */
  #prefillShare({ prefill }: ChargedWork): number {
    if (this.#decodes === 0) return 1
    const chunks = Math.max(1, prefill.newTokens / STEP_TOKENS)
    const chunkS = prefill.seconds / chunks
    return chunkS <= 0 ? 0.5 : chunkS / (chunkS + this.#decodeStepS)
  }

  get #decodeStepS(): number {
    return this.stepS({ sequences: this.#sequences, blocks: this.#blocks })
  }

  #pass(seconds: number, prefillShare: number): void {
    this.#potS += seconds * prefillShare
    const decodeS = seconds * (1 - prefillShare)
    if (decodeS === 0) return
    const { baseS, perRequestS, perBlockS } = this.#pace
    const steps = decodeS / this.#decodeStepS
    this.#perSequence += steps * (baseS / this.#sequences + perRequestS)
    this.#perBlock += steps * perBlockS
  }

  /** Gives a prefill its part of the time since the last end of one. */
  #endPrefill(work: ChargedWork): void {
    // The last one gets all, so that nothing is left.
    const ownS = this.#head === this.#last ? this.#potS : Math.min(this.#potS, this.#claimS(work))
    this.#remove(work)
    work.seconds += ownS
    this.#potS = this.#head === null ? 0 : this.#potS - ownS
  }

  #append(work: ChargedWork): void {
    work.previous = this.#last
    if (this.#last === null) this.#head = work
    else this.#last.next = work
    this.#last = work
    this.#prefills += 1
  }

  #remove(work: ChargedWork): void {
    if (work.previous === null) this.#head = work.next
    else work.previous.next = work.next
    if (work.next === null) this.#last = work.previous
    else work.next.previous = work.previous
    work.previous = null
    work.next = null
    this.#prefills -= 1
  }

  /** Requests that wait behind a step have used nothing; those of the step share it. */
  #claimS(work: ChargedWork): number {
    let tokens = 0
    let groupS = 0
    let isInStep = false
    for (let one = this.#head; one !== null; one = one.next) {
      if (groupS > 0 && tokens + one.prefill.newTokens > STEP_TOKENS) break
      tokens += one.prefill.newTokens
      groupS += one.prefill.seconds
      isInStep ||= one === work
    }
    if (!isInStep) return 0
    if (groupS <= 0) return this.#potS / this.#prefills
    return Math.max(Math.min(work.prefill.seconds, this.#potS), (this.#potS * work.prefill.seconds) / groupS)
  }

  #startDecode(work: ChargedWork): void {
    const { sequences, blocks } = work.decode
    work.phase = 'decode'
    work.perSequenceAt = this.#perSequence
    work.perBlockAt = this.#perBlock
    this.#decodes += 1
    this.#sequences += sequences
    this.#blocks += blocks
  }

  #endDecode(work: ChargedWork): void {
    const { sequences, blocks } = work.decode
    work.seconds += sequences * (this.#perSequence - work.perSequenceAt) + blocks * (this.#perBlock - work.perBlockAt)
    this.#decodes -= 1
    this.#sequences -= sequences
    this.#blocks = this.#decodes === 0 ? 0 : this.#blocks - blocks
  }
}

const newWork = (prefill: ChargedPrefill, decode: ChargedDecode): ChargedWork => ({
  prefill,
  decode,
  phase: 'prefill',
  seconds: 0,
  perSequenceAt: 0,
  perBlockAt: 0,
  previous: null,
  next: null,
})
