/** Growth of totals within a time window: requests and failures per second. */
import type { Engine, View } from '../../dashboard/wire.ts'

/** Long enough for a stable rate, short enough to be current. */
const WINDOW_MS = 10_000

interface Sample {
  readonly at: number
  readonly requests: number
  readonly failures: number
}

export interface Growth {
  readonly requestsPerS: number
  readonly failures: number
  /** Length of the window in seconds. */
  readonly overS: number
}

/** Keeps the totals of each engine for some seconds. */
export class Pace {
  #samples = new Map<string, readonly Sample[]>()

  /** Removes engines that are no longer in the view. */
  record({ pools }: View): void {
    const next = new Map<string, readonly Sample[]>()
    for (const { cluster, model, at, engines } of pools) {
      for (const engine of engines) {
        const key = keyOf(cluster, model, engine.id)
        const known = this.#samples.get(key) ?? []
        const sample = at === undefined ? null : sampleOf(engine, at)
        next.set(key, sample === null ? known : added(known, sample))
      }
    }
    this.#samples = next
  }

  /** Returns null if there is only one sample. */
  of(cluster: string, model: string, engine: string): Growth | null {
    const samples = this.#samples.get(keyOf(cluster, model, engine)) ?? []
    const [first, last] = [samples[0], samples.at(-1)]
    if (first === undefined || last === undefined || last.at <= first.at) return null
    const overS = (last.at - first.at) / 1000
    return { requestsPerS: (last.requests - first.requests) / overS, failures: last.failures - first.failures, overS }
  }
}

/** Names contain no space. */
const keyOf = (cluster: string, model: string, engine: string): string => `${cluster} ${model} ${engine}`

/**
 * Takes counters of the current incarnation of the object only. Earlier values may or may not have been counted
 * before.
 */
function sampleOf(
  { requests_total: requests, failures_total: failures, counted_before: before }: Engine,
  at: number,
): Sample | null {
  if (requests === undefined || failures === undefined) return null
  return { at, requests: requests - (before?.requests ?? 0), failures: failures - (before?.failures ?? 0) }
}

/** A counter that decreased was restarted. A sample older than the window is kept if it is the only one. */
function added(known: readonly Sample[], sample: Sample): readonly Sample[] {
  const last = known.at(-1)
  if (last === undefined || sample.requests < last.requests || sample.failures < last.failures) return [sample]
  if (sample.at <= last.at) return known
  const recent = known.filter(({ at }) => sample.at - at <= WINDOW_MS)
  return [...(recent.length === 0 ? [last] : recent), sample]
}
