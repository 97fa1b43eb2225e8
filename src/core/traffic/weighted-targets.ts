import { hashText } from '../routing/placement-hash.ts'
import { SlidingCount } from '../sliding-count.ts'

/** A model that gets a share of the requests for another name. */
export interface WeightedTarget {
  readonly model: string
  /** Share of the requests relative to the other targets. 0: only keys of `keys` and testers get here. */
  readonly weight: number
  /** Names of keys whose requests always go here. */
  readonly keys: readonly string[]
  /** null: it is never stopped. */
  readonly stop: StopRule | null
}

/** When a target gets no more requests by weight. */
interface StopRule {
  /** Share of failed requests, 0 to 1. */
  readonly failedShare: number
  /** Requests in the window before the share counts. */
  readonly minRequests: number
}

/** Window of the rule, ms. */
const WINDOW_MS = 5 * 60_000

interface TargetState {
  readonly ended: SlidingCount
  readonly failed: SlidingCount
  stoppedSince: number | null
}

/** Whose request it is. */
interface Requester {
  readonly key: string
  /** null: the client names none. */
  readonly session: string | null
}

/**
 * Targets of one name. Sessions stay with their target: with rendezvous hashing (Thaler and Ravishankar 1998, weighted
 * by Schindelhauer and Schomaker 2005) a change of weights moves only the share that it has to.
 */
export class WeightedTargets {
  readonly #targets: readonly WeightedTarget[]
  readonly #states: ReadonlyMap<WeightedTarget, TargetState>

  constructor(targets: readonly WeightedTarget[]) {
    this.#targets = targets
    this.#states = new Map(
      targets.map((target) => [
        target,
        { ended: new SlidingCount(WINDOW_MS), failed: new SlidingCount(WINDOW_MS), stoppedSince: null },
      ]),
    )
  }

  find(model: string): WeightedTarget | null {
    return this.#targets.find((target) => target.model === model) ?? null
  }

  /**
   * Chooses by key, else by session, else at random in proportion to the weights. If all targets with weight are
   * stopped, none is: somebody has to serve.
   */
  choose({ key, session }: Requester, random: () => number): WeightedTarget {
    const own = this.#targets.find(({ keys }) => keys.includes(key))
    if (own !== undefined) return own
    const open = this.#targets.filter((target) => target.weight > 0 && this.stoppedSince(target) === null)
    const candidates = open.length > 0 ? open : this.#targets.filter(({ weight }) => weight > 0)
    let best = candidates[0]!
    let lowest = Infinity
    for (const target of candidates) {
      const uniform = session === null ? random() : (hashText(`${target.model}\0${key}\0${session}`) + 0.5) / 2 ** 32
      // The first of exponential arrivals with these rates: each is first with its share of the weights.
      const arrival = -Math.log(1 - uniform) / target.weight
      if (arrival >= lowest) continue
      lowest = arrival
      best = target
    }
    return best
  }

  /** Counts an ended request. Returns true if this one has stopped the target. */
  ended(target: WeightedTarget, hasFailed: boolean, now: number): boolean {
    const state = this.#states.get(target)
    if (state === undefined || target.stop === null) return false
    state.ended.add(now)
    if (hasFailed) state.failed.add(now)
    if (state.stoppedSince !== null) return false
    const { failedShare, minRequests } = target.stop
    const ended = state.ended.count(now)
    if (ended < minRequests || state.failed.count(now) < failedShare * ended) return false
    state.stoppedSince = now
    return true
  }

  /** When the rule stopped it, ms since the epoch; null: it has not. */
  stoppedSince(target: WeightedTarget): number | null {
    return this.#states.get(target)?.stoppedSince ?? null
  }
}
