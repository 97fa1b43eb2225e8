/** Interval between two decisions, and the largest rise in it: defaults of Kubernetes. */
export const SYNC_MS = 15_000
const MAX_RISE_FACTOR = 2
const MAX_RISE_PODS = 4

/** Share by which a metric may differ from its target without a change. */
const TOLERANCE = 0.1

interface Limits {
  readonly minReplicas: number
  readonly maxReplicas: number
  readonly stabilizationS: number
}

/** Decisions of a HorizontalPodAutoscaler (autoscaling/v2) with the defaults of Kubernetes but the window. */
export class HorizontalAutoscaler {
  readonly #limits: Limits
  /** Recommendations of the stabilization window. */
  #recent: { readonly at: number; readonly replicas: number }[] = []

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** @param needed replicas by the metric, not rounded */
  decide(needed: number, replicas: number, now: number): number {
    const { minReplicas, maxReplicas, stabilizationS } = this.#limits
    const isClose = replicas > 0 && Math.abs(needed / replicas - 1) <= TOLERANCE
    const ceiling = Math.max(MAX_RISE_FACTOR * replicas, replicas + MAX_RISE_PODS)
    const wanted = isClose ? replicas : Math.min(ceiling, Math.ceil(needed))
    this.#recent = this.#recent.filter(({ at }) => at > now - stabilizationS * 1000)
    this.#recent.push({ at: now, replicas: wanted })
    const highest = Math.max(...this.#recent.map((one) => one.replicas))
    // A lower value is awaited; a higher one counts at once.
    const decided = wanted >= replicas ? wanted : Math.min(replicas, highest)
    return Math.min(maxReplicas, Math.max(minReplicas, decided))
  }
}
