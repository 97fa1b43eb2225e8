/** Engines of a region behind another gateway, as the admin API lists them. */
import type { Engine, Pool } from './wire.ts'

/** An engine of a region, with its cluster there. */
export type RegionEngine = Engine & { readonly cluster: string }

/** A pool of `/v1/firstlight/fleet`. */
export type FleetPool = Pick<Pool, 'cluster' | 'model'> & {
  /** null: the region did not answer, or rejects the key. Absent: its admin key is not configured. */
  readonly region_engines?: readonly RegionEngine[] | null
}

export interface RegionView {
  /** `closed`: no admin key is configured. `silent`: the region did not answer. `failed`: this gateway did not. */
  readonly state: 'reading' | 'listed' | 'closed' | 'silent' | 'failed'
  /** Last list of the engines. null: none was received. */
  readonly engines: readonly RegionEngine[] | null
  /** Time of that list, ms since the epoch. */
  readonly listedAt: number
}

export const unread: RegionView = { state: 'reading', engines: null, listedAt: 0 }

/**
 * The view after an answer; an older list stays until there is a newer one.
 * @param pools answer of this gateway; null: none
 */
export function nextRegionView(
  last: RegionView,
  { pools, of, at }: { readonly pools: readonly FleetPool[] | null; readonly of: FleetPool; readonly at: number },
): RegionView {
  if (pools === null) return { ...last, state: 'failed' }
  const engines = pools.find(({ cluster, model }) => cluster === of.cluster && model === of.model)?.region_engines
  if (engines === undefined) return { state: 'closed', engines: null, listedAt: 0 }
  return engines === null ? { ...last, state: 'silent' } : { state: 'listed', engines, listedAt: at }
}
