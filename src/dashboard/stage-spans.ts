import type { StageTimes } from '../core/contract/stages.ts'
import type { SnakeCase } from '../snake-case.ts'
import type { Stage } from './wire.ts'

export interface Span {
  readonly name: string
  readonly tone: string
  readonly ms: number
}

/** Stages in order. They are consecutive and do not overlap. */
const STEPS: readonly (readonly [stage: Stage, name: string, tone: string])[] = [
  ['edge', 'reading', 'a'],
  ['tokens', 'tokens', 'b'],
  ['lookup', 'cache lookup', 'c'],
  ['route', 'cluster choice', 'c'],
  ['admit', 'engine choice', 'd'],
  ['gateway_queue', 'gateway queue', 'h'],
  ['encode', 'encode leg', 'e'],
  ['prefill_leg', 'prefill leg', 'f'],
  ['transfer', 'transfer', 'c'],
  ['connect', 'to response headers', 'g'],
]

export const TONES: readonly (readonly [tone: string, name: string])[] = [
  ['a', 'reading'],
  ['b', 'tokens'],
  ['c', 'lookup, cluster, transfer'],
  ['d', 'engine choice'],
  ['e', 'encode leg'],
  ['f', 'prefill leg'],
  ['g', 'response headers'],
  ['h', 'queues'],
  ['i', 'engine: to first token'],
  ['z', 'the rest'],
]

/** Converts the stages to spans that add up to the TTFT. */
export function spansOf(stages: SnakeCase<StageTimes>): Span[] {
  const spans: Span[] = STEPS.flatMap(([stage, name, tone]) => {
    const durationMs = stages[stage] ?? 0
    return durationMs > 0 ? [{ name, tone, ms: durationMs }] : []
  })
  // `first_byte` counts from the dispatch and includes the response head.
  const engineMs = Math.max(0, (stages.first_byte ?? 0) - (stages.connect ?? 0))
  const queueMs = Math.min(engineMs, stages.queue ?? 0)
  if (queueMs > 0) spans.push({ name: 'engine queue', tone: 'h', ms: queueMs })
  if (engineMs > queueMs) spans.push({ name: 'engine, to first token', tone: 'i', ms: engineMs - queueMs })
  const rest = (stages.ttft ?? 0) - spans.reduce((sum, span) => sum + span.ms, 0)
  if (rest > 0.5) spans.push({ name: 'the rest', tone: 'z', ms: rest })
  return spans
}
