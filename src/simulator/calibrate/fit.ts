import type { EngineLimits, Profile } from '../profiles.ts'
import { fleetOf, replay } from '../replay/plan.ts'
import { routerNamed } from '../replay/routers.ts'
import { quantile } from '../replay/statistics.ts'
import type { StepLaw } from '../step-cost.ts'
import { type Trace, type TraceRequest, objectIn, TraceError } from '../replay/trace.ts'

/** One request as a real server served it. Seconds of one clock. */
export interface Measured {
  readonly promptTokens: number
  readonly outputTokens: number
  readonly queuedAt: number
  readonly firstTokenAt: number
  readonly lastTokenAt: number
}

interface Row {
  readonly input_toks: number
  readonly output_toks: number
  readonly queued_ts: number
  readonly first_token_ts: number
  readonly last_token_ts: number
}

const FIELDS = ['input_toks', 'output_toks', 'queued_ts', 'first_token_ts', 'last_token_ts'] as const

/**
 * Reads a measurement, one JSON object per line: `input_toks`, `output_toks`, `queued_ts`, `first_token_ts`,
 * `last_token_ts` (seconds). Returns it in order of arrival. Throws a TraceError for an invalid line.
 */
export function readMeasured(text: string): Measured[] {
  const rows = text.split('\n').flatMap((line, at) => (line.trim() === '' ? [] : [rowOf(line, at + 1)]))
  return rows
    .map((row) => ({
      promptTokens: row.input_toks,
      outputTokens: row.output_toks,
      queuedAt: row.queued_ts,
      firstTokenAt: row.first_token_ts,
      lastTokenAt: row.last_token_ts,
    }))
    .sort((one, other) => one.queuedAt - other.queuedAt)
}

function rowOf(text: string, line: number): Row {
  const row = objectIn(text, line) as Partial<Row>
  const missing = FIELDS.find((field) => typeof row[field] !== 'number')
  if (missing !== undefined) throw new TraceError(line, `has no number \`${missing}\``)
  if (
    !(
      row.input_toks! >= 1 &&
      row.output_toks! >= 1 &&
      row.first_token_ts! >= row.queued_ts! &&
      row.last_token_ts! >= row.first_token_ts!
    )
  )
    throw new TraceError(line, 'has times out of order or no tokens')
  return row as Row
}

/** Converts a measurement to a trace. Shared prefixes are unknown. */
export function traceOf(name: string, measured: readonly Measured[], blockTokens: number): Trace {
  const start = measured[0]?.queuedAt ?? 0
  const requests = measured.map(({ promptTokens, outputTokens, queuedAt }): TraceRequest => ({
    atMs: (queuedAt - start) * 1000,
    promptTokens,
    outputTokens,
    blocks: new Uint32Array(0),
    session: null,
    chain: null,
    thinkMs: 0,
  }))
  return { name, blockTokens, requests }
}

/** Cumulative counters of one engine at one time, from its metrics. */
export interface Totals {
  /** Number of finished prefills, their total seconds, and the tokens they computed. */
  readonly prefills: number
  readonly prefillS: number
  readonly prefillTokens: number
  /** Number of inter-token gaps and their sum. */
  readonly gaps: number
  readonly gapS: number
  readonly running: number
}

const NAMES = {
  prefills: 'vllm:request_prefill_time_seconds_count',
  prefillS: 'vllm:request_prefill_time_seconds_sum',
  prefillTokens: 'vllm:request_prefill_kv_computed_tokens_sum',
  gaps: 'vllm:inter_token_latency_seconds_count',
  gapS: 'vllm:inter_token_latency_seconds_sum',
  running: 'vllm:num_requests_running',
} as const

/** Reads the counters. Throws a RangeError that names a missing metric. */
export function readTotals(text: string): Totals {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const name = /^(vllm:[a-z_]+)[{ ]/.exec(line)?.[1]
    if (name !== undefined) values.set(name, (values.get(name) ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1)))
  }
  const read = (name: string) => {
    const value = values.get(name)
    if (value === undefined || !Number.isFinite(value)) throw new RangeError(`the metrics have no ${name}`)
    return value
  }
  return Object.fromEntries(Object.entries(NAMES).map(([key, name]) => [key, read(name)])) as unknown as Totals
}

/** Minimum number of busy intervals for a fit. */
const LEAST_STRETCHES = 5

/**
 * Fits the step cost to the counters of a running engine: prefill seconds against tokens, and seconds between tokens
 * against running requests, per interval. Pair and context terms stay 0, because counters do not distinguish one long
 * prompt from many short ones. Throws a RangeError if there is too little data.
 */
export function lawFromTotals(totals: readonly Totals[]): StepLaw {
  const prefill: Point[] = []
  const decode: Point[] = []
  for (let at = 1; at < totals.length; at += 1) {
    const [from, to] = [totals[at - 1]!, totals[at]!]
    const prefills = to.prefills - from.prefills
    const gaps = to.gaps - from.gaps
    if (prefills > 0)
      prefill.push({
        x: (to.prefillTokens - from.prefillTokens) / prefills,
        y: ((to.prefillS - from.prefillS) * 1000) / prefills,
        weight: prefills,
      })
    if (gaps > 0)
      decode.push({ x: (from.running + to.running) / 2, y: ((to.gapS - from.gapS) * 1000) / gaps, weight: gaps })
  }
  if (prefill.length < LEAST_STRETCHES || decode.length < LEAST_STRETCHES)
    throw new RangeError(
      `only ${prefill.length} intervals with finished prefills and ${decode.length} with tokens; at least ` +
        `${LEAST_STRETCHES} of each are needed`,
    )
  const first = straight(prefill)
  const next = straight(decode)
  return {
    stepMs: next.base,
    prefillStepMs: Math.max(0, first.base - next.base),
    prefillTokenMs: first.slope,
    prefillPairMs: 0,
    decodeSequenceMs: next.slope,
    decodeContextTokenMs: 0,
    encodeItemMs: 0,
    transferMs: 0,
    transferTokenMs: 0,
  }
}

interface Point {
  readonly x: number
  readonly y: number
  readonly weight: number
}

/** Weighted least squares with non-negative coefficients. */
function straight(points: readonly Point[]): { readonly base: number; readonly slope: number } {
  const sum = (of: (point: Point) => number) => points.reduce((total, point) => total + point.weight * of(point), 0)
  const weight = sum(() => 1)
  const meanX = sum(({ x }) => x) / weight
  const meanY = sum(({ y }) => y) / weight
  const spread = sum(({ x }) => (x - meanX) ** 2)
  const slope = spread === 0 ? 0 : Math.max(0, sum(({ x, y }) => (x - meanX) * (y - meanY)) / spread)
  const base = meanY - slope * meanX
  return base >= 0 ? { base, slope } : { base: 0, slope: meanX === 0 ? 0 : meanY / meanX }
}

export interface DescendOptions {
  readonly evaluations: number
  /** Initial step size in every direction. */
  readonly step: number
  readonly progress?: (done: number, of: number) => void
}

interface Corner {
  readonly point: readonly number[]
  readonly value: number
}

/** Minimises a function by the Nelder-Mead simplex, restarted where it gets stuck. */
export function descend(
  start: readonly number[],
  value: (point: readonly number[]) => number,
  options: DescendOptions,
): readonly number[] {
  const budget = { left: options.evaluations }
  const counted = (point: readonly number[]): Corner => {
    budget.left -= 1
    options.progress?.(options.evaluations - budget.left, options.evaluations)
    return { point, value: value(point) }
  }
  let best = counted(start)
  for (let step = options.step; budget.left > start.length + 1; step = Math.max(0.05, step / 2)) {
    const corners = [
      best,
      ...start.map((_, axis) => counted(best.point.map((at, other) => (other === axis ? at + step : at)))),
    ]
    best = settle(corners, counted, budget)
  }
  return best.point
}

const SMALL = 1e-4

function settle(
  corners: Corner[],
  counted: (point: readonly number[]) => Corner,
  budget: { readonly left: number },
): Corner {
  const byValue = (one: Corner, other: Corner) => one.value - other.value
  corners.sort(byValue)
  while (budget.left > 0 && corners.at(-1)!.value - corners[0]!.value > SMALL * Math.abs(corners[0]!.value)) {
    const worst = corners.pop()!
    const centre = corners[0]!.point.map(
      (_, axis) => corners.reduce((sum, { point }) => sum + point[axis]!, 0) / corners.length,
    )
    const along = (factor: number) => counted(centre.map((at, axis) => at + factor * (at - worst.point[axis]!)))
    const mirrored = along(1)
    const next =
      mirrored.value < corners[0]!.value
        ? better(mirrored, along(2))
        : mirrored.value < corners.at(-1)!.value
          ? mirrored
          : better(mirrored, along(-0.5))
    if (next.value < worst.value) corners.push(next)
    else shrink(corners, worst, counted)
    corners.sort(byValue)
  }
  return corners[0]!
}

function shrink(corners: Corner[], worst: Corner, counted: (point: readonly number[]) => Corner): void {
  const best = corners[0]!
  const towards = ({ point }: Corner) => counted(point.map((at, axis) => (at + best.point[axis]!) / 2))
  const moved = [...corners.slice(1), worst].map(towards)
  corners.splice(1, corners.length, ...moved)
}

const better = (one: Corner, other: Corner): Corner => (other.value < one.value ? other : one)

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

export interface FitOptions {
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
  readonly ttftP50Ms: Compared
  readonly ttftP90Ms: Compared
  readonly ttftP99Ms: Compared
  readonly outputTokensPerS: Compared
}

export interface Compared {
  readonly measured: number
  readonly simulated: number
  /** simulated / measured - 1. */
  readonly error: number
}

/**
 * Finds the profile whose simulated run is closest to the measured one on the first `fitted` requests. All requests
 * are simulated, because later ones compete with earlier ones; only the first `fitted` are compared.
 */
export function fitProfile(measured: readonly Measured[], options: FitOptions): Profile {
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
  measured: readonly Measured[],
  profile: Profile,
  { engines, from }: { readonly engines: number; readonly from: number },
): Score {
  const truth = timesOfMeasured(measured)
  const simulated = timesOf(measured, profile, engines)
  const compared = (of: (times: Times) => number): Compared => {
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
  const costModel: StepLaw = { ...found, ...experts, encodeItemMs: 0, transferMs: 0, transferTokenMs: 0 }
  return { name, description: `Fitted by firstlight calibrate.`, costModel, limits }
}

function timesOfMeasured(measured: readonly Measured[]): Times {
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

function timesOf(measured: readonly Measured[], profile: Profile, engines: number): Times {
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
