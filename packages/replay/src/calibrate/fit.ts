import type { EngineLimits, Profile } from '../../../simulator/src/profiles.ts'
import { fleetOf, replay } from '../replay/plan.ts'
import { routerNamed } from '../replay/routers.ts'
import { quantile } from '../replay/statistics.ts'
import type { StepCostModel } from '../../../simulator/src/step-cost.ts'
import { descend } from './descend.ts'
import { type MeasuredRequest, traceOf } from './measured.ts'

/** Coefficients of the step time that are fitted. The others cannot be observed in such a measurement. */
const SEARCHED = [
  'stepMs',
  'prefillStepMs',
  'prefillTokenMs',
  'prefillPairMs',
  'decodeSequenceMs',
  'decodeContextTokenMs',
] as const

/** Starting point of the search: an 8B model on one GPU. */
const START: Readonly<Record<(typeof SEARCHED)[number], number>> = {
  stepMs: 12,
  prefillStepMs: 2,
  prefillTokenMs: 0.08,
  prefillPairMs: 4e-6,
  decodeSequenceMs: 0.05,
  decodeContextTokenMs: 5e-5,
}

/** A mixture of experts reads most of its weights per expert. */
const START_EXPERTS_MS = 12

/** Floor in ms added to times before relative errors are computed, because smaller differences are noise. */
const FLOOR_MS = 20

interface FitOptions {
  readonly name: string
  readonly limits: EngineLimits
  /** Data-parallel ranks: engines with separate queues. */
  readonly engines: number
  /** Mixture of experts: share of an engine's experts that one token reads. null: a dense model. */
  readonly expertShare?: number | null
  /** Number of requests, from the first, that are used for the fit. */
  readonly fitted: number
  readonly evaluations: number
  readonly progress?: (done: number, of: number) => void
}

/** Times of the requests of a run, in order of arrival. */
interface Times {
  readonly ttftMs: Float64Array
  readonly tokenMs: Float64Array
  readonly endMs: Float64Array
}

export interface Score {
  readonly requests: number
  readonly ttftP50Ms: Comparison
  readonly ttftP90Ms: Comparison
  readonly ttftP99Ms: Comparison
  readonly outputTokensPerS: Comparison
}

interface Comparison {
  readonly measured: number
  readonly simulated: number
  /** simulated / measured - 1. */
  readonly error: number
}

/**
 * Finds the profile whose simulated run is closest to the measured one on the first `fitted` requests. All requests
 * are simulated, because later ones compete with earlier ones; only the first `fitted` are compared.
 */
export function fitProfile(measured: readonly MeasuredRequest[], options: FitOptions): Profile {
  const truth = timesOfMeasured(measured)
  const start = SEARCHED.map((name) => Math.log(START[name]))
  if (options.expertShare != null) start.push(Math.log(START_EXPERTS_MS))
  const best = descend(
    start,
    (point) => lossOf(truth, timesOf(measured, profileAt(point, options), options.engines), options.fitted),
    {
      evaluations: options.evaluations,
      step: 0.7,
      ...(options.progress === undefined ? {} : { progress: options.progress }),
    },
  )
  return profileAt(best, options)
}

/** Scores a profile on the requests from `from` to the end. */
export function scoreProfile(
  measured: readonly MeasuredRequest[],
  profile: Profile,
  { engines, from }: { readonly engines: number; readonly from: number },
): Score {
  const truth = timesOfMeasured(measured)
  const simulated = timesOf(measured, profile, engines)
  const compared = (of: (times: Times) => number): Comparison => {
    const [real, ours] = [of(truth), of(simulated)]
    return { measured: real, simulated: ours, error: ours / real - 1 }
  }
  const ttft = (share: number) => compared(({ ttftMs }) => quantile(ttftMs.slice(from).sort(), share))
  const arrivedMs = (measured[from]!.queuedAt - measured[0]!.queuedAt) * 1000
  const tokens = measured.slice(from).reduce((sum, { outputTokens }) => sum + outputTokens, 0)
  return {
    requests: measured.length - from,
    ttftP50Ms: ttft(0.5),
    ttftP90Ms: ttft(0.9),
    ttftP99Ms: ttft(0.99),
    outputTokensPerS: compared(({ endMs }) => tokens / ((Math.max(...endMs.slice(from)) - arrivedMs) / 1000)),
  }
}

function profileAt(point: readonly number[], { name, limits, expertShare }: FitOptions): Profile {
  const found = Object.fromEntries(SEARCHED.map((key, at) => [key, Math.exp(point[at]!)])) as Record<
    (typeof SEARCHED)[number],
    number
  >
  const experts = expertShare == null ? {} : { expertsMs: Math.exp(point[SEARCHED.length]!), expertShare }
  const costModel: StepCostModel = { ...found, ...experts, encodeItemMs: 0, transferMs: 0, transferTokenMs: 0 }
  return { name, description: `Fitted by firstlight calibrate.`, costModel, limits }
}

function timesOfMeasured(measured: readonly MeasuredRequest[]): Times {
  const start = measured[0]!.queuedAt
  return {
    ttftMs: Float64Array.from(measured, ({ queuedAt, firstTokenAt }) => (firstTokenAt - queuedAt) * 1000),
    tokenMs: Float64Array.from(
      measured,
      ({ firstTokenAt, lastTokenAt, outputTokens }) =>
        ((lastTokenAt - firstTokenAt) * 1000) / Math.max(1, outputTokens - 1),
    ),
    endMs: Float64Array.from(measured, ({ lastTokenAt }) => (lastTokenAt - start) * 1000),
  }
}

function timesOf(measured: readonly MeasuredRequest[], profile: Profile, engines: number): Times {
  const trace = traceOf('measured', measured, profile.limits.blockTokens)
  // vLLM's own balancer of data-parallel ranks counts requests as well.
  const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const { jobs } = replay(trace, fleetOf(engines, { kind: 'vllm', profile }), routerNamed('fewest_requests'), pace)
  return {
    ttftMs: Float64Array.from(jobs, ({ firstTokenAt, sentAt }) => firstTokenAt - sentAt),
    tokenMs: Float64Array.from(
      jobs,
      ({ firstTokenAt, endedAt, outputTokens }) => (endedAt - firstTokenAt) / Math.max(1, outputTokens - 1),
    ),
    endMs: Float64Array.from(jobs, ({ endedAt }) => endedAt),
  }
}

/** Mean squared relative error of TTFT and of time per output token, plus the error of the spread of TTFT. */
function lossOf(truth: Times, simulated: Times, fitted: number): number {
  let loss = 0
  for (let at = 0; at < fitted; at += 1) {
    loss += relative(simulated.ttftMs[at]!, truth.ttftMs[at]!) ** 2
    loss += relative(simulated.tokenMs[at]!, truth.tokenMs[at]!, 1) ** 2
    loss += relative(simulated.endMs[at]!, truth.endMs[at]!) ** 2
  }
  const [ours, real] = [simulated.ttftMs.slice(0, fitted).sort(), truth.ttftMs.slice(0, fitted).sort()]
  const spread = [0.25, 0.5, 0.75, 0.9, 0.99].reduce(
    (sum, share) => sum + relative(quantile(ours, share), quantile(real, share)) ** 2,
    0,
  )
  return loss / fitted + spread
}

function relative(one: number, other: number, floor = FLOOR_MS): number {
  return Math.log((one + floor) / (other + floor))
}
