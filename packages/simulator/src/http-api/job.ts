import type { Driver } from '../driver.ts'
import type { Sequence, SequenceSpec } from '../sequence.ts'
import type { AnswerPlan } from './answer-plan.ts'

/** One choice of a request in the engine. */
export interface Choice {
  readonly index: number
  readonly plan: AnswerPlan
  readonly spec: SequenceSpec
}

export interface JobEvents {
  /** `choice` received its `count`-th token. */
  token?(choice: Choice, count: number, sequence: Sequence): void
  /** All choices ended. `aborted`: the engine aborted one (sleep, pause). */
  done(sequences: readonly Sequence[], aborted: boolean): void
}

/** Runs all choices of a request. The returned function aborts the rest; no callback runs after it. */
export function runJob(driver: Driver, choices: readonly Choice[], events: JobEvents): () => void {
  let left = choices.length
  let cancelled = false
  let aborted = false
  const sequences: Sequence[] = []
  for (const choice of choices) {
    sequences.push(
      driver.submit(choice.spec, {
        token: (sequence) => {
          if (!cancelled) events.token?.(choice, sequence.outputs, sequence)
        },
        ended: (sequence) => {
          left -= 1
          aborted ||= sequence.state === 'aborted'
          if (left === 0 && !cancelled) events.done(sequences, aborted)
        },
      }),
    )
  }
  return () => {
    cancelled = true
    for (const sequence of sequences) driver.abort(sequence)
  }
}
