import type { ClusterObject } from '../../../durable/cluster-object.ts'
import { RegionLedger } from '../../core/edge/region-ledger.ts'
import { type PoolSource, withAutoConfigure } from '../../origin/pools/auto-configure.ts'
import { RemotePool } from '../../origin/pools/remote-pool.ts'
import { poolOfCell, ShardedPool } from '../../origin/pools/sharded-pool.ts'
import type { PoolName, PoolPort } from '../../ports/pool.ts'
import type { EdgeAccess } from './edge-access.ts'
import { PoolObjectTransport, type Stub } from './pool-object-transport.ts'
import { RegionPool } from './region-pool.ts'

/** Location of a pool's object, and the pool's configuration. */
export interface PoolPlace extends PoolSource {
  /** Another gateway has the engines: this isolate counts what it sends there, and asks no object. */
  readonly isRegional: boolean
  /** Part of the object's name: raise it to move the object. */
  readonly generation: number
  /** Number of objects that share the pool. Absent: 1. */
  readonly shards?: number
  /** Applies only to the first request that the object ever gets. */
  readonly locationHint: string | null
  /** Where the object may run. Absent, null: anywhere. */
  readonly jurisdiction?: string | null
}

interface DurablePoolsOptions {
  /** The pool as configured now. null: there is none. */
  readonly source: (clusterId: string, pool: string) => PoolPlace | null
  /** State that the isolates share. Absent: each isolate is alone. */
  readonly edge?: EdgeAccess | null
  /** Absent: the clock of the runtime. */
  readonly now?: () => number
}

/** The only engine of a region's pool has the name of its cluster. */
function regionPool(cluster: string, pool: string, edge: EdgeAccess | null): PoolPort {
  const ledger = new RegionLedger({ cluster, pool, engine: cluster, random: Math.random, epoch: crypto.randomUUID() })
  return new RegionPool({ cluster, pool, ledger, views: edge?.views ?? null, client: edge?.client ?? null })
}

/** Returns the pools of an isolate. Each is one Durable Object, or one per shard, called by RPC. */
export function durablePools(
  namespace: DurableObjectNamespace<ClusterObject>,
  { source, edge = null, now = () => Date.now() }: DurablePoolsOptions,
): (clusterId: string, pool: string) => PoolPort {
  const pools = new Map<string, PoolPort>()
  const openCell = (name: PoolName, place: () => CellPlace | null): PoolPort => {
    const transport = new PoolObjectTransport(opener(namespace, name, place))
    return withAutoConfigure(new RemotePool({ transport, now, random: () => Math.random() }), place)
  }
  const open = ([clusterId, pool]: PoolName): PoolPort => {
    const place = () => source(clusterId, pool)
    const { isRegional = false, shards = 1 } = place() ?? {}
    if (isRegional) return withAutoConfigure(regionPool(clusterId, pool, edge), place)
    const cells = Array.from({ length: shards }, (_, at) => openCell([clusterId, pool], cellPlace(place, at, shards)))
    if (shards === 1) return cells[0]!
    return new ShardedPool({ cells, engines: () => place()?.pool.engines.map(({ id }) => id) ?? [], now })
  }
  return (...name) => {
    const key = JSON.stringify(name)
    const known = pools.get(key) ?? open(name)
    pools.set(key, known)
    return known
  }
}

interface CellPlace extends PoolPlace {
  /** null: the pool has one object. */
  readonly cell: number | null
}

function cellPlace(place: () => PoolPlace | null, cell: number, shards: number): () => CellPlace | null {
  return () => {
    const found = place()
    if (found === null) return null
    if (shards === 1) return { ...found, cell: null }
    return { ...found, pool: poolOfCell(found.pool, cell, shards), cell }
  }
}

/** Returns a function that opens a stub. A stub that failed stays unusable, so each call gets a new one. */
function opener(
  namespace: DurableObjectNamespace<ClusterObject>,
  [clusterId, pool]: PoolName,
  source: () => CellPlace | null,
): () => Stub {
  let at: { readonly name: string; readonly objects: typeof namespace; readonly id: DurableObjectId } | null = null
  return () => {
    const place = source()
    if (place === null) throw new Error('the pool is not in the configuration')
    const hint = place.locationHint === null ? {} : { locationHint: place.locationHint as DurableObjectLocationHint }
    const name = objectName(clusterId, pool, place.generation) + (place.cell === null ? '' : `:s${place.cell}`)
    // `idFromName` computes a keyed hash, so its result is cached.
    if (at?.name !== name) {
      const { jurisdiction = null } = place
      const objects =
        jurisdiction === null ? namespace : namespace.jurisdiction(jurisdiction as DurableObjectJurisdiction)
      at = { name, objects, id: objects.idFromName(name) }
    }
    return at.objects.get(at.id, hint)
  }
}

/**
 * Name of a pool's object. The name fixes the object's location for good; a new generation is a new object.
 * @testing
 */
export function objectName(clusterId: string, pool: string, generation: number): string {
  return `cluster:${clusterId}:${pool}:g${generation}`
}
