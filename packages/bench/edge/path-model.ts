/** Model of the time before the first byte: 12 cities as clients, engines in one to three of them. Warm connections. */

/** Latitude and longitude, degrees. */
const CITIES = {
  'New York': [40.7, -74],
  'San Francisco': [37.8, -122.4],
  'São Paulo': [-23.5, -46.6],
  London: [51.5, -0.1],
  Frankfurt: [50.1, 8.7],
  Johannesburg: [-26.2, 28],
  Dubai: [25.2, 55.3],
  Mumbai: [19.1, 72.9],
  Singapore: [1.35, 103.8],
  Tokyo: [35.7, 139.7],
  Sydney: [-33.9, 151.2],
  Warsaw: [52.2, 21],
} as const satisfies Readonly<Record<string, readonly [number, number]>>

type City = keyof typeof CITIES

const PLACES: readonly (readonly City[])[] = [
  ['Frankfurt'],
  ['New York'],
  ['San Francisco'],
  ['Tokyo'],
  ['Singapore'],
  ['Frankfurt', 'New York'],
  ['San Francisco', 'Frankfurt'],
  ['Tokyo', 'New York'],
  ['Frankfurt', 'San Francisco', 'Singapore'],
  ['New York', 'London', 'Tokyo'],
]

/**
 * Times in ms: work of a Worker, a hop within a place, the way from a placed Worker to its object, work of the object.
 */
const WORK_MS = 1
const HOP_MS = 1
const NEAR_OBJECT_MS = 5
const ADMIT_MS = 1

/** Round trip, ms: great circle at 2/3 of the speed of light, 1.4 times as long, and 2 ms. */
function rttMs(a: City, b: City): number {
  const [[x, y], [u, v]] = [CITIES[a], CITIES[b]].map(([lat, lon]) => [radians(lat), radians(lon)]) as [
    [number, number],
    [number, number],
  ]
  const half = Math.sin((u - x) / 2) ** 2 + Math.cos(x) * Math.cos(u) * Math.sin((v - y) / 2) ** 2
  return ((6371 * 2 * Math.asin(Math.sqrt(half)) * 2) / 200) * 1.4 + 2
}

const radians = (degrees: number): number => (degrees * Math.PI) / 180

export interface PathRow {
  readonly client: string
  readonly regions: number
  /** Nearest place with engines. */
  readonly engines: string
  readonly direct_ms: number
  readonly unplaced_ms: number
  readonly placed_ms: number
  readonly goal_ms: number
}

/** Rows of all clients and places. The goal: max(1.1 x RTT, RTT + 10 ms) + 3 ms. */
export function pathRows(): PathRow[] {
  return PLACES.flatMap((places) =>
    (Object.keys(CITIES) as City[]).map((client) => {
      const near = places.reduce((a, b) => (rttMs(client, b) < rttMs(client, a) ? b : a))
      const direct = rttMs(client, near)
      return {
        client,
        regions: places.length,
        engines: near,
        direct_ms: direct,
        // One pool has one object, in the first place.
        unplaced_ms: rttMs(client, places[0]!) + ADMIT_MS + WORK_MS + direct,
        placed_ms: HOP_MS + direct + WORK_MS + NEAR_OBJECT_MS + ADMIT_MS,
        goal_ms: Math.max(1.1 * direct, direct + 10) + 3,
      }
    }),
  )
}
