/**
 * Table of all metrics, the source of `/metrics`, docs/metrics.md and the Grafana dashboard. Names follow the
 * OpenTelemetry GenAI conventions, else vLLM's. Labels are configured names or closed lists: never an address, a key
 * or client input.
 */
import { GATEWAY_METRICS } from './gateway-metrics.ts'
import { CAPACITY_METRICS } from './capacity-metrics.ts'
import { DECISION_METRICS } from './decision-metrics.ts'
import { ENGINE_METRICS } from './engine-metrics.ts'
import { flag, type Metric } from './metric.ts'
import { REGION_METRICS } from './region-metrics.ts'
import { REQUEST_METRICS } from './request-metrics.ts'

/** Seconds; those of vLLM's `time_to_first_token_seconds`, with steps between 10 and 80 s, where long prompts end. */
export const BUCKETS_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 60, 80, 160,
  640, 2560,
] as const

/** All metrics, in the order of `/metrics` and docs/metrics.md. */
export const METRICS: readonly Metric[] = [
  ...ENGINE_METRICS,
  ...DECISION_METRICS,
  ...CAPACITY_METRICS,
  ...REQUEST_METRICS,
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_draining',
    help: '1 while this gateway shuts down, else 0.',
    value: (g) => flag(g.draining),
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_unreachable_pools',
    help: 'Pools whose cluster object did not answer this scrape.',
    value: (g) => g.unreachablePools,
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_malformed_resources',
    help: 'Resources of Kubernetes (InferencePool, InferenceObjective) whose newest version is malformed and not used.',
    value: (g) => g.malformedResources,
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_silent_miss_engines',
    help: 'Engines for which cache hits are predicted but never reported.',
    value: (g) => g.silentEngines,
  },
  ...REGION_METRICS,
  ...GATEWAY_METRICS,
]

/** Stages with a metric of their own; all others are in `firstlight_stage_seconds`. */
export const NAMED_STAGES: ReadonlySet<string> = new Set(
  METRICS.flatMap((metric) => (metric.from === 'duration' && metric.stage !== null ? [metric.stage] : [])),
)
