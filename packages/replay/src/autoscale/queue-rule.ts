import type { ScalingRule } from './scaling-rule.ts'

/** Threshold of the KEDA recipe of vLLM's production stack: waiting requests for each replica. */
const PUBLISHED_QUEUE_TARGET = 5

/** Scales on queue length: the sum of `vllm:num_requests_waiting`, divided by the target for one replica. */
export function queueRule(target = PUBLISHED_QUEUE_TARGET, stabilizationS = 300): ScalingRule {
  return {
    name: `queue_${target}`,
    stabilizationS,
    needed: ({ gauges }) => gauges.reduce((sum, { waiting }) => sum + waiting, 0) / target,
  }
}
