import type { PoolDigest } from '../../../../src/core/contract/pool-digest.ts'
import type { EngineGauges } from '../replay/replay-engine.ts'

/** What a rule sees of the fleet. @testing */
export interface FleetReading {
  /** Replicas that serve or start. */
  readonly replicas: number
  /** Replicas that start. */
  readonly starting: number
  /** Gauges of the replicas that serve, as in the metrics of the engines. */
  readonly gauges: readonly EngineGauges[]
  /** What the gateway publishes. */
  digest(): PoolDigest
}

/** A rule that sets the number of replicas. */
export interface ScalingRule {
  readonly name: string
  /** Replicas needed now, not rounded, as in the metric of a HorizontalPodAutoscaler (HPA). */
  needed(reading: FleetReading): number
  /** Time for which the HPA awaits a lower value, seconds. Absent: the default of Kubernetes, 300. */
  readonly stabilizationS?: number
}
