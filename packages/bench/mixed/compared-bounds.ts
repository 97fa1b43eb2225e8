/** Checks that the bounds of admission use the prediction that the gateway reports. */
import { OverloadControl, type OverloadInput, type Verdict } from '../../../src/core/overload/overload-control.ts'
import type { Pressure } from '../../../src/core/overload/pressure.ts'

/** Relative difference from which two predictions are not the same. */
export const TOLERANCE = 1e-6

/** Bound that every predicted first token exceeds, ms. */
const TINY_MS = 1e-6

interface ComparedBounds {
  /** Bounds that would refuse the request on its engine if they were low enough. */
  readonly compared: number
  /** Bounds among them that begin to refuse it at another time than the reported one. */
  readonly differ: number
}

const NONE: ComparedBounds = { compared: 0, differ: 0 }

/** Admission control that compares its bounds with the reported prediction of each decision. */
export class ComparingOverload extends OverloadControl {
  /** Of the last decision. */
  last = NONE

  override judge(input: OverloadInput): Verdict {
    this.last = comparedBounds(input)
    return super.judge(input)
  }
}

/**
 * Finds out by trial where a deadline of the client and the objective of a pool begin to refuse the request: at the
 * reported median, and at the reported 90th percentile. Lateness that was measured is no prediction and left out.
 */
export function comparedBounds(input: OverloadInput): ComparedBounds {
  const { placement, predictedTtftMs } = input.decision
  const pressure = placement.kind === 'whole' ? input.pressure(placement.engine) : null
  if (pressure === null || predictedTtftMs === null) return NONE
  const trial = trialOf(input, pressure)
  const bounds = [
    [trial.deadline, predictedTtftMs],
    [trial.objective, predictedTtftMs + pressure.marginMs],
  ] as const
  // The objective refuses nothing on idle engines and unlearned ones.
  const active = bounds.filter(([refuses]) => refuses(TINY_MS))
  const differ = active.filter(([refuses, ms]) => refuses(ms * (1 + TOLERANCE)) || !refuses(ms * (1 - TOLERANCE)))
  return { compared: active.length, differ: differ.length }
}

/** A copy: the pool computes each value when it is read. */
const valuesOf = (pressure: Pressure): Pressure => ({
  waitMs: pressure.waitMs,
  marginMs: pressure.marginMs,
  prefillMs: pressure.prefillMs,
  overdueMs: pressure.overdueMs,
  stepMs: pressure.stepMs,
  prefillShare: pressure.prefillShare,
  queuedMs: pressure.queuedMs,
  outputTokens: pressure.outputTokens,
  memoryShare: pressure.memoryShare,
  stepLimitMs: pressure.stepLimitMs,
  requests: pressure.requests,
  waiting: pressure.waiting,
  samples: pressure.samples,
})

type Trial = Readonly<Record<'deadline' | 'objective', (boundMs: number) => boolean>>

/** Whether admission refuses the request on the engine with this bound alone. */
function trialOf(input: OverloadInput, pressure: Pressure): Trial {
  const { ttftDeadlineMs: _own, ...admission } = input.admission
  // Without running requests, neither memory nor the time between tokens refuses it.
  const alone: Pressure = { ...valuesOf(pressure), overdueMs: 0, requests: 0 }
  const isRefused = (control: OverloadControl, deadline: { readonly ttftDeadlineMs?: number }): boolean =>
    control.judge({
      ...input,
      admission: { ...admission, ...deadline },
      pressure: () => alone,
      maxWaiting: Infinity,
      alternatives: () => [],
      limited: () => undefined,
      waitedMs: undefined,
    }).kind === 'refuse'
  return {
    deadline: (ttftDeadlineMs) => isRefused(new OverloadControl(() => 0), { ttftDeadlineMs }),
    objective: (ttftMs) => {
      const control = new OverloadControl(() => 0)
      control.configure({ ttftMs, ttftMsPer1kTokens: null, itlMs: null }, input.now)
      return isRefused(control, {})
    },
  }
}
