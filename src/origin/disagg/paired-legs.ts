/** Sends the prefill leg beside the final one, for connectors whose engines wait for each other. */
import { OriginError } from '../../ports/origin.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import type { OnFirstByte, SendStep } from '../dispatch.ts'
import { FencedSignal } from '../pause/fenced-signal.ts'
import { callLeg, type LegOutcome } from './call-leg.ts'
import type { FinalLeg } from './final-leg.ts'

/** `send` for final legs that may have another one beside them. */
export const paired =
  (send: SendStep): SendStep =>
  (attempt, finalLeg, onFirstByte) =>
    finalLeg.beside === undefined
      ? send(attempt, finalLeg, onFirstByte)
      : new PairedLegs(attempt, { finalLeg, beside: finalLeg.beside, send, onFirstByte }).run()

interface PairParts {
  readonly finalLeg: FinalLeg
  readonly beside: NonNullable<FinalLeg['beside']>
  readonly send: SendStep
  readonly onFirstByte: OnFirstByte
}

/**
 * Two calls of which one answers the client. A failure of one ends the other: it would wait for it until its own time
 * limit.
 */
class PairedLegs {
  readonly #attempt: AttemptContext
  readonly #parts: PairParts
  readonly #prefill: FencedSignal
  readonly #final: FencedSignal
  /** Why the prefill engine cannot serve its leg, if it failed before the first byte of the answer. */
  #failed: Exclude<LegOutcome, { answer: unknown }> | null = null
  #hasBegun = false

  constructor(attempt: AttemptContext, parts: PairParts) {
    this.#attempt = attempt
    this.#parts = parts
    this.#prefill = new FencedSignal(attempt.signal)
    this.#final = new FencedSignal(attempt.signal)
  }

  async run(): Promise<Response | FailedOutcome> {
    const attempt = this.#attempt
    const { finalLeg, send, onFirstByte } = this.#parts
    attempt.exchange.scope.background(this.#runPrefill())
    try {
      const outcome = await send({ ...attempt, signal: this.#final }, finalLeg, (sent, answer, early) => {
        this.#hasBegun ||= !early
        return onFirstByte(sent, answer, early)
      })
      if (!('failure' in outcome)) return outcome
      this.#prefill.fence(new Error('the final leg failed'))
      return this.#blamed() ?? outcome
    } catch (error) {
      this.#prefill.fence(new Error('the final leg failed'))
      const failed = attempt.signal.aborted ? null : this.#blamed()
      if (failed === null) throw error
      return failed
    }
  }

  /** Never rejects. */
  async #runPrefill(): Promise<void> {
    const attempt = this.#attempt
    const { exchange, placed, ports, stages } = attempt
    const { target, body } = this.#parts.beside
    const startedAt = ports.now()
    const limitMs = placed.route.pool.limits.prefillMs
    const signal = this.#prefill
    const outcome = await callLeg(attempt, { target, path: exchange.path, body, limitMs, signal }).catch(() => null)
    if (outcome === null) return
    if ('answer' in outcome) {
      if (this.#hasBegun) return
      stages.add('prefill_leg', ports.now() - startedAt)
      placed.booking.legDone('prefill', stages.snapshot(), outcome.answer.usage)
      return
    }
    if (this.#hasBegun || signal.aborted) {
      if ('errorAnswer' in outcome) outcome.errorAnswer.discard()
      return
    }
    this.#failed = outcome
    this.#final.fence(new OriginError('reset', 'the prefill engine failed'))
  }

  /** Outcome of the pair if its prefill leg failed. The engine's error goes to the client. */
  #blamed(): Response | FailedOutcome | null {
    const failed = this.#failed
    if (failed === null) return null
    return 'failed' in failed ? failed.failed : this.#parts.onFirstByte(this.#attempt, failed.errorAnswer, false)
  }
}
