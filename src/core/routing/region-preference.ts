/** Order of preference between regions. Pure. */

export interface RegionPreference {
  /** The preferred region first. */
  readonly order: readonly string[]
  /** What happens when the engines of a preferred region are full. */
  readonly whenFull: 'next' | 'refuse'
  /** Predicted time to the first token above which a region counts as full, ms. null: none. */
  readonly spillTtftMs: number | null
}

/** A cluster as it is ranked by predicted time. */
interface RankedRegion {
  /** Tried only after all others refused. */
  readonly isUnavailable: boolean
  /** Predicted time to the first token, ms. null: unknown. */
  readonly ttftMs: number | null
}

/** Place of a region in the order, from 0; regions without a place are behind all others. */
export function placeIn({ order }: RegionPreference, region: string | null): number {
  const at = region === null ? -1 : order.indexOf(region)
  return at === -1 ? order.length : at
}

/**
 * Sorts ranked clusters by preference. Clusters of one region keep their order; full ones follow those with room, and
 * unavailable ones follow all.
 */
export function byPreference<Cluster>(
  preference: RegionPreference,
  ranked: readonly Cluster[],
  of: (cluster: Cluster) => RankedRegion & { readonly region: string | null },
): readonly Cluster[] {
  const keyed = ranked.map((cluster) => {
    const { region, ...rank } = of(cluster)
    return { cluster, at: placeIn(preference, region), stage: stageOf(preference, rank) }
  })
  return keyed.sort((one, other) => one.stage - other.stage || one.at - other.at).map(({ cluster }) => cluster)
}

function stageOf({ spillTtftMs }: RegionPreference, { isUnavailable, ttftMs }: RankedRegion): number {
  if (isUnavailable) return 2
  return spillTtftMs !== null && ttftMs !== null && ttftMs > spillTtftMs ? 1 : 0
}
