/** Sampled requests as exemplars of the histograms of TTFT and duration. */
import { BoundedMap } from '../core/bounded-map.ts'
import { groupName } from '../core/reports/rollups.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import { BUCKETS_S } from './metrics.ts'
import type { Trace } from './trace-context.ts'

/** Beyond this number of histograms the oldest are dropped. */
const MAX_SERIES = 400

/** A request whose time is in a bucket. */
export interface Exemplar {
  readonly traceId: string
  /** Span of the request at the gateway. */
  readonly spanId: string
  /** Measured time, ms. */
  readonly ms: number
  /** Time of the measurement, ms since the epoch. */
  readonly at: number
}

/** The newest request of each bucket, one list for each histogram (`seriesName`). null: the bucket has none. */
export type ExemplarsBySeries = Readonly<Record<string, readonly (Exemplar | null)[]>>

type SeriesOwner = Parameters<typeof groupName>[0]

export const seriesName = (stage: string, owner: SeriesOwner): string => stage + groupName(owner)

/** Place of a time among the buckets; the last one has no limit. */
function placeOf(ms: number): number {
  const place = BUCKETS_S.findIndex((limitS) => ms <= limitS * 1000)
  return place < 0 ? BUCKETS_S.length : place
}

export class Exemplars {
  readonly #bySeries = new BoundedMap<string, (Exemplar | null)[]>(MAX_SERIES)

  add(record: RequestRecord, { traceId, spanId }: Trace): void {
    const { model, cluster, engine, receivedAt, durationMs, stages } = record
    const owner = { model, cluster: cluster ?? '', engine: engine ?? '' }
    const add = (stage: string, ms: number): void => {
      this.#bucketsOf(seriesName(stage, owner))[placeOf(ms)] = { traceId, spanId, ms, at: receivedAt + ms }
    }
    if (stages.ttft !== undefined) add('ttft', stages.ttft)
    add('duration', durationMs)
  }

  list(): ExemplarsBySeries {
    return Object.fromEntries(this.#bySeries)
  }

  #bucketsOf(series: string): (Exemplar | null)[] {
    const known = this.#bySeries.get(series)
    if (known !== undefined) return known
    const buckets = Array.from({ length: BUCKETS_S.length + 1 }, () => null)
    this.#bySeries.set(series, buckets)
    return buckets
  }
}

/** The newest request of each bucket over several gateways. */
export function newestExemplars(all: readonly ExemplarsBySeries[]): ExemplarsBySeries {
  const newest: Record<string, readonly (Exemplar | null)[]> = {}
  for (const exemplars of all) {
    for (const [series, buckets] of Object.entries(exemplars)) {
      const known = newest[series]
      newest[series] = buckets.map((one, place) => newerOf(one, known?.[place] ?? null))
    }
  }
  return newest
}

const newerOf = (one: Exemplar | null, other: Exemplar | null): Exemplar | null =>
  one === null || (other !== null && other.at > one.at) ? other : one
