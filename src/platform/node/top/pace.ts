/** What totals grew by lately: requests a second, and failures. */
import type { Engine, View } from '../../../dashboard/wire.ts'

/** Long enough for a steady figure, short enough to be about now. */
const WINDOW_MS = 10_000

interface Sample {
  readonly at: number
  readonly requests: number
  readonly failures: number
}

export interface Grown {
  readonly requestsPerS: number
  readonly failures: number
  /** Of which both are told, seconds. */
  readonly overS: number
}

/** Remembers the totals of each engine for some seconds. */
export class Pace {
  #samples = new Map<string, readonly Sample[]>()

  /** Engines that are gone from the view are forgotten. */
  saw({ pools }: View): void {
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

  /** null: it was seen once so far. */
  of(cluster: string, model: string, engine: string): Grown | null {
    const samples = this.#samples.get(keyOf(cluster, model, engine)) ?? []
    const [first, last] = [samples[0], samples.at(-1)]
    if (first === undefined || last === undefined || last.at <= first.at) return null
    const overS = (last.at - first.at) / 1000
    return { requestsPerS: (last.requests - first.requests) / overS, failures: last.failures - first.failures, overS }
  }
}

/** Names hold no blank. */
const keyOf = (cluster: string, model: string, engine: string): string => `${cluster} ${model} ${engine}`

/** Counted by this incarnation of the object: what came from before it may have been seen already, or not. */
function sampleOf({ requests_total: requests, failures_total: failures, counted_before: before }: Engine, at: number): Sample | null {
  if (requests === undefined || failures === undefined) return null
  return { at, requests: requests - (before?.requests ?? 0), failures: failures - (before?.failures ?? 0) }
}

/** A count that fell began anew. One older than the window is kept where there is no other to compare with. */
function added(known: readonly Sample[], sample: Sample): readonly Sample[] {
  const last = known.at(-1)
  if (last === undefined || sample.requests < last.requests || sample.failures < last.failures) return [sample]
  if (sample.at <= last.at) return known
  const recent = known.filter(({ at }) => sample.at - at <= WINDOW_MS)
  return [...(recent.length === 0 ? [last] : recent), sample]
}
