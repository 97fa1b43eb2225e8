import type { DecodeCostModel } from '../latency/decode-cost-model.ts'
import type { RequestMix } from './request-mix.ts'

/** Speed and room of one engine. */
export interface EnginePace {
  /** Duration of a decode step, without delays by prefills. */
  readonly step: DecodeCostModel
  /** Sequences that it runs at the same time. Infinity: unknown. */
  readonly places: number
  /** KV blocks. Infinity: unknown, or not limited by the objective. */
  readonly blocks: number
}

/** Share of an engine's time that may be planned, where no objective limits it before. */
const MAX_BUSY = 0.95

/** Counted part of a prefill that delays the running streams, seconds, as in admission control. */
const MAX_STALL_S = 10

/**
 * Multiple of the mean wait for prefills that has to fit into the objective: at high load, waits are distributed
 * exponentially, and one of a hundred exceeds ln(100) means.
 */
const WAIT_MEANS = Math.log(100)

/** Halvings of the interval in which a rate is searched: to a thousandth. */
const BISECTIONS = 10

/** Minimum work of a request, seconds: an engine cannot serve any number of requests. */
const MIN_WORK_S = 1e-4

/**
 * Requests per second of this mix that an engine serves within the objective.
 *
 * With prefill S, output O tokens, and decode step base + c * running (c: per sequence, with its blocks), prefills
 * take the share rate * S of the time. By Little's law, running = rate * O * itl, hence itl = base / (1 - rate * W)
 * with the work W = S + O * c of a request. Each limit of `itl` or `running` gives a limit of the rate.
 * @param itlS objective of the time between tokens, seconds. Infinity: none
 */
export function engineRate(mix: RequestMix, { step, places, blocks }: EnginePace, itlS: number): number {
  const { prefillS, prefillS2, slackS, outputTokens, blocksPerSequence } = mix
  const { baseS } = step
  const workS = Math.max(MIN_WORK_S, prefillS + outputTokens * (step.perRequestS + step.perBlockS * blocksPerSequence))
  const stepsS = outputTokens * baseS
  let rate = MAX_BUSY / workS
  if (outputTokens > 0) {
    const running = Math.min(places, blocksPerSequence > 0 ? blocks / blocksPerSequence : Infinity)
    // Admission counts the request's own prefill against the tokens of the running streams.
    const stepS = itlS - Math.min(MAX_STALL_S, prefillS) / outputTokens
    const byItl = itlS === Infinity ? Infinity : stepRate(mix, { baseS, stepS, workS })
    const byRoom = running < Infinity ? running / (stepsS + running * workS) : Infinity
    // An engine without requests admits one, whatever the objective.
    rate = Math.min(rate, Math.max(Math.min(byItl, byRoom), 1 / (workS + stepsS)))
  }
  if (prefillS > 0 && slackS < Infinity)
    rate = Math.min(rate, slackS / ((WAIT_MEANS * prefillS2) / 2 + slackS * prefillS))
  return rate
}

/** Mean wait for prefills, seconds (Pollaczek and Khinchine). */
const meanWaitS = (rate: number, { prefillS, prefillS2 }: RequestMix): number =>
  (rate * prefillS2) / 2 / (1 - rate * prefillS)

interface StepBudget {
  readonly baseS: number
  /** Longest step, seconds. */
  readonly stepS: number
  readonly workS: number
}

/**
 * Rate at which a step takes `stepS`. As in admission control, prefills that are queued at the start of a response
 * delay its tokens besides their mean share: a burst of long prompts can be longer than a short response.
 */
function stepRate(mix: RequestMix, { baseS, stepS, workS }: StepBudget): number {
  if (stepS <= baseS) return 0
  let low = 0
  let high = (1 - baseS / stepS) / workS
  for (let step = 0; step < BISECTIONS; step++) {
    const rate = (low + high) / 2
    const delayS = (WAIT_MEANS * meanWaitS(rate, mix)) / mix.outputTokens
    if (baseS / (1 - rate * workS) + delayS <= stepS) low = rate
    else high = rate
  }
  return low
}
