import type { AutoscaledReplay, Scaler } from './autoscaled-replay.ts'
import { HorizontalAutoscaler, SYNC_MS } from './horizontal-autoscaler.ts'
import type { ScalingRule } from './scaling-rule.ts'

/** Window of Kubernetes in which lower recommendations are awaited, seconds. */
const DEFAULT_STABILIZATION_S = 300

/** Scales by a rule through a HorizontalPodAutoscaler. */
export function ruleScaler(
  rule: ScalingRule,
  { minReplicas, maxReplicas }: Pick<AutoscaledReplay, 'minReplicas' | 'maxReplicas'>,
): Scaler {
  return (fleet, router, at) => {
    const { stabilizationS = DEFAULT_STABILIZATION_S } = rule
    const autoscaler = new HorizontalAutoscaler({ minReplicas, maxReplicas, stabilizationS })
    const sync = (now: number): void => {
      const { replicas, starting } = fleet
      const reading = { replicas, starting, gauges: fleet.gauges(), digest: () => router.state.digest(now) }
      fleet.scaleTo(autoscaler.decide(rule.needed(reading), replicas, now), now)
      at(now + SYNC_MS, sync)
    }
    at(SYNC_MS, sync)
  }
}
