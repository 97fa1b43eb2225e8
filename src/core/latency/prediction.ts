import type { ErrorSpread } from './error-spread.ts'
import type { PredictionChoice } from './prediction-choice.ts'
import type { UsualDelay } from './usual-delay.ts'

/** What an engine has to do before a first token, seconds. */
interface WorkBefore {
  /** Round trip, and queued prefills or the wait for a place, whichever is longer. */
  readonly waitS: number
  /** The wait for a place. */
  readonly placeWaitS: number
  /** Prefill of the uncached tokens, and loading of cached ones and of an adapter. */
  readonly ownS: number
  /** What the engine's steps add to both. 0: it is idle, or they are unknown. */
  readonly stepsS: number
  /** Whether other prompts wait for their first token. */
  readonly isBehind: boolean
}

/** Errors of earlier predictions for the engine. */
interface PredictionErrors {
  readonly predictionChoice: PredictionChoice
  readonly stepDelay: UsualDelay
  readonly spread: ErrorSpread
}

/** Prediction for one request on one engine: policies, admission, deadlines, hedges, logs and headers have no other. */
export interface Prediction {
  /** Time to the first token, seconds: its median and 90th percentile. */
  readonly firstTokenS: number
  readonly firstTokenP90S: number
  /** Seconds between two tokens of the engine's streams once the request decodes there, with usual prefills. */
  readonly itlS: number
  /** Wait until the engine has a place (`max_num_seqs`), seconds. 0: it has one, or its places are unknown. */
  readonly placeWaitS: number
  /** Part of the first token for the prompt itself. */
  readonly ownS: number
  /** From the work one after the other, and in steps: the two models that are chosen from. */
  readonly workS: number
  readonly inStepsS: number
  /** The chosen one, without the usual delay of prompts that wait behind others. */
  readonly baseS: number
}

/** @param itlS seconds between tokens, from the engine's decode cost model */
export function predict(work: WorkBefore, itlS: number, errors: PredictionErrors): Prediction {
  const workS = work.waitS + work.ownS
  const baseS = baseSeconds(work, errors)
  const firstTokenS = baseS + laterSeconds(baseS, work, errors)
  return {
    firstTokenS,
    firstTokenP90S: work.isBehind ? firstTokenS * errors.spread.factor : firstTokenS,
    itlS,
    placeWaitS: work.placeWaitS,
    ownS: work.ownS,
    workS,
    inStepsS: workS + work.stepsS,
    baseS,
  }
}

/** `baseS` of the prediction. */
export function baseSeconds(
  { waitS, ownS, stepsS }: Pick<WorkBefore, 'waitS' | 'ownS' | 'stepsS'>,
  { predictionChoice }: PredictionErrors,
): number {
  const workS = waitS + ownS
  return predictionChoice.choose(workS, workS + stepsS)
}

/** Time by which prompts that arrive later usually delay a first token that waits behind others. */
export function laterSeconds(
  baseS: number,
  { isBehind }: Pick<WorkBefore, 'isBehind'>,
  { stepDelay }: PredictionErrors,
): number {
  return isBehind ? stepDelay.seconds(baseS) : 0
}
