import type { ScalingRule } from './scaling-rule.ts'

/** Defaults of llm-d's workload-variant-autoscaler (configmap-saturation-scaling.yaml of v0.7.0). */
const KV_THRESHOLD = 0.8
const QUEUE_THRESHOLD = 5
const KV_SPARE_TRIGGER = 0.1
const QUEUE_SPARE_TRIGGER = 3

/**
 * Scales on KV cache use and queue as llm-d's workload-variant-autoscaler with percentages: a replica is saturated at a
 * threshold; one replica is added if the mean spare of the others is below a trigger and none starts; one is removed if
 * the rest would keep that spare with its load.
 */
export const kvRule: ScalingRule = {
  name: 'kv_use',
  needed({ gauges, replicas, starting }) {
    const free = gauges.filter(({ kvUsage, waiting }) => kvUsage < KV_THRESHOLD && waiting < QUEUE_THRESHOLD)
    if (free.length === 0 || !hasSpare(free, 1)) return starting > 0 ? replicas : replicas + 1
    const rest = free.length - 1
    return rest > 0 && hasSpare(free, free.length / rest) ? replicas - 1 : replicas
  },
}

function hasSpare(
  replicas: readonly { readonly kvUsage: number; readonly waiting: number }[],
  factor: number,
): boolean {
  const mean = (pick: (one: (typeof replicas)[number]) => number): number =>
    (factor * replicas.reduce((sum, one) => sum + pick(one), 0)) / replicas.length
  return (
    KV_THRESHOLD - mean(({ kvUsage }) => kvUsage) >= KV_SPARE_TRIGGER &&
    QUEUE_THRESHOLD - mean(({ waiting }) => waiting) >= QUEUE_SPARE_TRIGGER
  )
}
