/** Regions that may serve a request: those of its key, and those that an edge in front names for its client. */
import type { ClusterConfig } from '../../config.ts'
import type { HeaderReader } from './bearer.ts'
import type { Caller } from './caller.ts'

/** Regions of the edge's client, on requests to a region. Of other clients the gateway ignores it. */
const REGIONS_HEADER = 'x-firstlight-regions'

type Residency = Pick<Caller, 'regions' | 'edgeRegions'>

/** Whether the cluster may get requests of the caller. */
export function mayServe(
  { region, gateway }: Pick<ClusterConfig, 'region' | 'gateway'>,
  { regions, edgeRegions }: Residency,
): boolean {
  if (regions !== null && (region === null || !regions.includes(region))) return false
  // Engines without a region are where this gateway is, and the edge has chosen it.
  return edgeRegions === undefined || (region === null ? gateway === null : edgeRegions.includes(region))
}

/** The caller, within the regions that an edge names. They can only exclude clusters. */
export function withinEdgeRegions(caller: Caller, headers: HeaderReader): Caller {
  const named = caller.edge ? headers.get(REGIONS_HEADER) : null
  return named === null ? caller : { ...caller, edgeRegions: named.split(',').map((name) => name.trim()) }
}

/** Headers for another gateway, which may send the request on. */
export function regionHeaders({ regions, edgeRegions }: Residency): readonly string[] {
  const allowed = edgeRegions?.filter((name) => regions === null || regions.includes(name)) ?? regions
  return allowed === null ? NONE : [REGIONS_HEADER, allowed.join(',')]
}

const NONE: readonly string[] = []
