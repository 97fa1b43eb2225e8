/** Rates, first tokens and queues of a pool over the last 15 minutes, in bounded steps. */
import type { SloConfig } from '../contract/pool-config.ts'
import {
  emptyErrors,
  ERROR_LIMITS,
  type HistoryStep,
  type PoolHistory,
  SLICE_MS,
  STEP_MS,
  STEPS,
} from '../contract/pool-history.ts'
import type { StageTimes } from '../contract/stages.ts'
import { maxKnown } from './merge-histories.ts'
import { Sketch } from './sketch.ts'

/** One more than 15 minutes, because the first one is partly older. */
const SLICES = 16

interface Step {
  readonly at: number
  requests: number
  outputTokens: number
  readonly ttft: Sketch
  judged: number
  late: number
  queueS: number | null
  kvUsage: number | null
}

interface Slice {
  readonly at: number
  readonly stages: Map<string, Sketch>
  readonly errors: number[]
}

type JudgeFirstToken = (step: Step, ttftMs: number, promptTokens: number) => boolean

/** Step of a pool without an objective. */
const notJudged: JudgeFirstToken = () => false

interface FirstToken {
  readonly stages: StageTimes
  readonly promptTokens: number
  /** null: not predicted, or delayed by an earlier attempt. */
  readonly predictedTtftMs: number | null
}

/** Records the history of one pool. */
export class HistoryRecorder {
  readonly #steps: Step[] = []
  readonly #slices: Slice[] = []
  /** Counts a first token against the objective. Returns whether it is late. */
  #judge: JudgeFirstToken = notJudged
  #lastGaugesAt = -Infinity

  configure(slo: SloConfig | null): void {
    this.#judge = slo === null ? notJudged : judgeBy(slo)
  }

  requested(now: number): void {
    this.#step(now).requests += 1
  }

  output(tokens: number, now: number): void {
    this.#step(now).outputTokens += tokens
  }

  /** Returns whether the first token is later than the objective. */
  firstToken({ stages, promptTokens, predictedTtftMs }: FirstToken, now: number): boolean {
    const ttftMs = stages.ttft ?? stages.first_byte
    if (ttftMs === undefined) return false
    const step = this.#step(now)
    step.ttft.add(ttftMs)
    const isLate = this.#judge(step, ttftMs, promptTokens)
    const slice = this.#slice(now)
    const times: Readonly<Record<string, number>> = stages
    for (const stage in times) sketchOf(slice, stage).add(times[stage]!)
    const sentMs = ttftMs - (stages.gateway_queue ?? 0)
    if (predictedTtftMs !== null && sentMs > 0) slice.errors[errorBin(predictedTtftMs / sentMs)]! += 1
    return isLate
  }

  /** Reads the gauges once a second, because that takes a pass over all engines. */
  gaugeBy(engines: { gauges(now: number): Pick<HistoryStep, 'queueS' | 'kvUsage'> }, now: number): void {
    if (now - this.#lastGaugesAt < 1_000) return
    const { queueS, kvUsage } = engines.gauges(now)
    this.#lastGaugesAt = now
    const step = this.#step(now)
    step.queueS = maxKnown(step.queueS, queueS)
    step.kvUsage = maxKnown(step.kvUsage, kvUsage)
  }

  /** The parts that end after `since`, ms since the epoch, and not before the last 15 minutes. */
  data(since: number, now: number): PoolHistory {
    const from = Math.max(since, now - STEP_MS * STEPS)
    return {
      steps: this.#steps.filter(({ at }) => at + STEP_MS > from).map((step) => ({ ...step, ttft: step.ttft.data() })),
      slices: this.#slices
        .filter(({ at }) => at + SLICE_MS > from)
        .map(({ at, stages, errors }) => ({
          at,
          stages: Object.fromEntries([...stages].map(([stage, sketch]) => [stage, sketch.data()])),
          errors: [...errors],
        })),
    }
  }

  #step(now: number): Step {
    const at = now - (now % STEP_MS)
    const last = this.#steps.at(-1)
    // A clock that went back adds to the last step.
    if (last !== undefined && at <= last.at) return last
    const step: Step = {
      at,
      requests: 0,
      outputTokens: 0,
      ttft: new Sketch(),
      judged: 0,
      late: 0,
      queueS: null,
      kvUsage: null,
    }
    this.#steps.push(step)
    if (this.#steps.length > STEPS + 1) this.#steps.shift()
    return step
  }

  #slice(now: number): Slice {
    const at = now - (now % SLICE_MS)
    const last = this.#slices.at(-1)
    if (last !== undefined && at <= last.at) return last
    const slice: Slice = { at, stages: new Map(), errors: emptyErrors() }
    this.#slices.push(slice)
    if (this.#slices.length > SLICES) this.#slices.shift()
    return slice
  }
}

function errorBin(ratio: number): number {
  const at = ERROR_LIMITS.findIndex((limit) => ratio <= limit)
  return at < 0 ? ERROR_LIMITS.length : at
}

function judgeBy({ ttftMs: limitMs, ttftMsPer1kTokens }: SloConfig): JudgeFirstToken {
  if (limitMs === null) return notJudged
  return (step, ttftMs, promptTokens) => {
    step.judged += 1
    const isLate = ttftMs > limitMs + ((ttftMsPer1kTokens ?? 0) * promptTokens) / 1000
    if (isLate) step.late += 1
    return isLate
  }
}

function sketchOf({ stages }: Slice, stage: string): Sketch {
  const known = stages.get(stage)
  if (known !== undefined) return known
  const sketch = new Sketch()
  stages.set(stage, sketch)
  return sketch
}
