/** Places of regions, edges and clients. */
import { chance } from '../../replay/src/replay/chance.ts'
import type { Trace, TraceRequest } from '../../replay/src/replay/trace.ts'

export interface Places {
  readonly regions: number
  readonly edges: number
  /** Round trips: to the nearest region, to the other one of the first two, and to the others. */
  readonly rttsMs: readonly [number, number, number]
}

/** The nearest region of an edge. */
export const regionOf = ({ regions }: Places, edge: number): number => edge % regions

export function rttMsBetween(places: Places, edge: number, region: number): number {
  const nearest = regionOf(places, edge)
  const [near, far, farthest] = places.rttsMs
  if (nearest === region) return near
  return Math.max(nearest, region) > 1 ? farthest : far
}

export interface Clients {
  readonly name: string
  /** Shares of the regions' clients at a time of the day, 0 to 1. */
  sharesAt(time: number): readonly number[]
}

/** Constant shares. */
export function unevenly(shares: readonly number[]): Clients {
  return { name: shares.join('/'), sharesAt: () => shares }
}

/** Amplitude of a region's share around the mean. */
const TIDE = 0.9

/** The same curve everywhere, shifted: a run is one day. */
export function byDay(regions: number): Clients {
  return {
    name: 'day',
    sharesAt: (time) =>
      Array.from({ length: regions }, (_, at) => 1 + TIDE * Math.cos(2 * Math.PI * (time - at / regions))),
  }
}

export interface EdgeEntry {
  readonly clients: Clients
  /** Probability that a conversation's next turn uses another edge. */
  readonly roam: number
  readonly seed: number
  /** Group of requests that use one edge; absent: a conversation. */
  readonly groupOf?: (request: TraceRequest) => string
}

/** The edge of each request of a trace. */
export function entriesOf(
  { requests }: Trace,
  places: Places,
  { clients, roam, seed, groupOf }: EdgeEntry,
): Uint8Array {
  const random = chance(seed)
  const spanMs = Math.max(1, requests.at(-1)?.atMs ?? 1)
  const known = new Map<string, number>()
  return Uint8Array.from(requests, (request, at) => {
    const group = groupOf?.(request) ?? request.chain ?? String(at)
    const before = known.get(group)
    const edge =
      before === undefined || random() < roam ? drawn(places, clients.sharesAt(request.atMs / spanMs), random) : before
    known.set(group, edge)
    return edge
  })
}

/** A region's clients are distributed among its edges. */
function drawn(places: Places, shares: readonly number[], random: () => number): number {
  const weights = Array.from(
    { length: places.edges },
    (_, edge) =>
      shares[regionOf(places, edge) % shares.length]! /
      Math.ceil((places.edges - regionOf(places, edge)) / places.regions),
  )
  let left = random() * weights.reduce((sum, one) => sum + one, 0)
  const edge = weights.findIndex((weight) => (left -= weight) < 0)
  return Math.max(0, edge)
}
