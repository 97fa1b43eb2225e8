import { keepsSlo } from '../replay/statistics.ts'
import { autoscaledReplay, type AutoscaledResult, type UnbegunReplay } from './autoscaled-replay.ts'
import { plannedScaler, type ReplicaPlan } from './planned-scaler.ts'

/** Length of a window of a plan. */
const WINDOW_MS = 300_000

/** Most plans that are tried after the first. */
const MAX_REPAIRS = 40

/** Best plan that was found. */
interface OfflineOptimum {
  readonly plan: ReplicaPlan
  readonly result: AutoscaledResult
  /** The plan keeps the share that was asked for. */
  readonly isReached: boolean
}

/**
 * Searches the plan of replicas with the fewest engine hours that keeps at least this share of requests. It knows the
 * whole trace: fleets of constant size give the smallest number for each window; then replicas are added to the windows
 * that miss most, and removed wherever the share is still kept.
 */
export function offlineOptimum(given: UnbegunReplay, share: number): OfflineOptimum {
  const run = (replicas: readonly number[]): AutoscaledResult =>
    autoscaledReplay(
      { ...given, beginsWith: replicas[0]! },
      plannedScaler({ windowMs: WINDOW_MS, replicas }, given.startS),
    )
  const search = new PlanSearch(given, share, run)
  const { replicas, result } = search.trimmed(search.repaired(search.first()))
  return { plan: { windowMs: WINDOW_MS, replicas }, result, isReached: result.keptShare >= share }
}

interface PlanTrial {
  readonly replicas: readonly number[]
  readonly result: AutoscaledResult
}

class PlanSearch {
  readonly #given: UnbegunReplay
  readonly #share: number
  readonly #run: (replicas: readonly number[]) => AutoscaledResult
  readonly #windows: number

  constructor(given: UnbegunReplay, share: number, run: (replicas: readonly number[]) => AutoscaledResult) {
    this.#given = given
    this.#share = share
    this.#run = run
    const lastMs = (given.trace.requests.at(-1)?.atMs ?? 0) / given.pace.speed
    this.#windows = Math.floor(lastMs / WINDOW_MS) + 1
  }

  /** The smallest constant fleet of each window that keeps the share in it, or the first that keeps it in all. */
  first(): PlanTrial {
    const { minReplicas, maxReplicas } = this.#given
    const found = new Map<number, number>()
    let count = minReplicas
    for (; count < maxReplicas && found.size < this.#windows; count += 1) {
      const result = this.#run(Array.from({ length: this.#windows }, () => count))
      const { missed, requests } = this.#byWindow(result)
      for (const [window, misses] of missed.entries())
        if (!found.has(window) && misses <= (1 - this.#share) * requests[window]!) found.set(window, count)
      if (result.keptShare >= this.#share) break
    }
    const replicas = Array.from({ length: this.#windows }, (_, window) => found.get(window) ?? count)
    return { replicas, result: this.#run(replicas) }
  }

  /** Adds replicas where most requests miss the objective, until the share is kept. */
  repaired({ replicas, result }: PlanTrial): PlanTrial {
    for (let repair = 0; repair < MAX_REPAIRS && result.keptShare < this.#share; repair += 1) {
      const { missed } = this.#byWindow(result)
      const open = [...replicas.keys()].filter((window) => replicas[window]! < this.#given.maxReplicas)
      if (open.length === 0) break
      const worst = open.reduce((one, other) => (missed[other]! > missed[one]! ? other : one))
      replicas = replicas.with(worst, replicas[worst]! + 1)
      result = this.#run(replicas)
    }
    return { replicas, result }
  }

  /** Removes a replica from each window, as long as the share is kept: the largest windows first. */
  trimmed(tried: PlanTrial): PlanTrial {
    let best = tried
    const order = [...best.replicas.keys()].sort((one, other) => best.replicas[other]! - best.replicas[one]!)
    for (const window of order) {
      const count = best.replicas[window]! - 1
      if (count < this.#given.minReplicas) continue
      const replicas = best.replicas.with(window, count)
      const result = this.#run(replicas)
      if (result.keptShare >= this.#share && result.engineHours < best.result.engineHours) best = { replicas, result }
    }
    return best
  }

  #byWindow({ jobs }: AutoscaledResult): { readonly missed: number[]; readonly requests: number[] } {
    const missed = Array.from({ length: this.#windows }, () => 0)
    const requests = Array.from({ length: this.#windows }, () => 0)
    for (const job of jobs) {
      const window = Math.min(this.#windows - 1, Math.floor(job.sentAt / WINDOW_MS))
      requests[window]! += 1
      if (!keepsSlo(job, this.#given.slo)) missed[window]! += 1
    }
    return { missed, requests }
  }
}
