/** One workload with one seed: the capacity rule, the other rules, and the offline optimum. */
import { type AutoscaleRow, autoscaleRow } from '../../replay/src/autoscale/autoscale-row.ts'
import {
  autoscaledReplay,
  type AutoscaledResult,
  type UnbegunReplay,
} from '../../replay/src/autoscale/autoscaled-replay.ts'
import { capacityRule } from '../../replay/src/autoscale/capacity-rule.ts'
import { kvRule } from '../../replay/src/autoscale/kv-rule.ts'
import { offlineOptimum } from '../../replay/src/autoscale/offline-optimum.ts'
import { queueRule } from '../../replay/src/autoscale/queue-rule.ts'
import { ruleScaler } from '../../replay/src/autoscale/rule-scaler.ts'
import type { ScalingRule } from '../../replay/src/autoscale/scaling-rule.ts'
import { startingFleet } from '../../replay/src/autoscale/starting-fleet.ts'
import { spread } from '../../replay/src/replay/trace.ts'
import { autoscaleWorkload } from './workloads.ts'

/** Objective of the bench. Long prompts have more time, since some take longer than 5 s alone. */
const SLO = { ttftMs: 5_000, ttftMsPer1kTokens: 150, itlMs: 100 }

const START_S = 120
const MAX_REPLICAS = 24

/** Stabilization window of the capacity rule, and that of the others, seconds. */
const SHORT_S = 60
const LONG_S = 300

export interface GradeInput {
  /** Path of a trace, or `generated`. */
  readonly source: string
  readonly seed: number
  readonly quick: boolean
  /** Also runs each rule with the stabilization window of the others. */
  readonly windows: boolean
}

/** Setting of the queue rule. */
export interface QueueSetting {
  /** Waiting requests for each replica. */
  readonly target: number
  /** The gateway refuses what would be late. false: requests wait. */
  readonly refuses: boolean
}

/** Targets that are tried: 5 is the published one. */
const TARGETS = [1, 2, 5, 10]

/** Settings within this share of the best are equally good; the cheapest of them is chosen. */
const EQUAL = 0.005

function replayOf({ source, seed, quick }: GradeInput): UnbegunReplay {
  const { trace, fleet } = autoscaleWorkload(source, quick)
  return {
    trace: spread(trace, seed),
    fleet,
    pace: { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed, clockMs: null },
    slo: SLO,
    refuses: true,
    minReplicas: 1,
    maxReplicas: MAX_REPLICAS,
    startS: START_S,
  }
}

/**
 * Chooses the setting of the queue rule as an operator does: on traffic of the day before (another seed), the one that
 * keeps the objective of most requests, and of equally good ones the cheapest.
 */
export function tunedQueue(input: GradeInput): QueueSetting {
  const given = replayOf(input)
  const beginsWith = startingFleet(given)
  const tried = TARGETS.flatMap((target) =>
    [true, false].map((refuses) => {
      const result = autoscaledReplay({ ...given, refuses, beginsWith }, ruleScaler(queueRule(target), given))
      return { target, refuses, result }
    }),
  )
  const best = Math.max(...tried.map(({ result }) => result.keptShare))
  const good = tried.filter(({ result }) => result.keptShare >= best - EQUAL)
  const { target, refuses } = good.reduce((one, other) =>
    other.result.engineHours < one.result.engineHours ? other : one,
  )
  return { target, refuses }
}

export interface Grade {
  readonly workload: string
  readonly seed: number
  readonly rows: readonly AutoscaleRow[]
}

/** Runs all rules and the search for the optimum. */
export function grade(input: GradeInput, queue: QueueSetting): Grade {
  const given = replayOf(input)
  const beginsWith = startingFleet(given)
  const run = (rule: ScalingRule, refuses: boolean): AutoscaledResult =>
    autoscaledReplay({ ...given, refuses, beginsWith }, ruleScaler(rule, given))
  const capacity = run(capacityRule, true)
  const { result: optimum } = offlineOptimum(given, capacity.keptShare)
  const windowed = (rule: ScalingRule, stabilizationS: number, refuses: boolean): AutoscaledResult =>
    run({ ...rule, stabilizationS }, refuses)
  const results = {
    capacity,
    queue_tuned: run(queueRule(queue.target), queue.refuses),
    queue_published: run(queueRule(), true),
    kv_use: run(kvRule, true),
    kv_use_all_wait: run(kvRule, false),
    ...(input.windows
      ? {
          capacity_300_s: windowed(capacityRule, LONG_S, true),
          queue_tuned_60_s: windowed(queueRule(queue.target), SHORT_S, queue.refuses),
          queue_published_60_s: windowed(queueRule(), SHORT_S, true),
          kv_use_60_s: windowed(kvRule, SHORT_S, true),
          kv_use_all_wait_60_s: windowed(kvRule, SHORT_S, false),
        }
      : {}),
    optimum,
  }
  return {
    workload: autoscaleWorkload(input.source, input.quick).name,
    seed: input.seed,
    rows: Object.entries(results).map(([rule, result]) => autoscaleRow(rule, result, optimum.engineHours)),
  }
}
