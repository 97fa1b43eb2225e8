import type { ClusterObject } from '../../../durable/cluster.ts'
import { ClusterState } from '../../core/pool/pool-state.ts'
import type { EngineSignal } from '../../core/contract/contract.ts'
import { withAutoConfigure, type PoolSource } from '../../origin/auto-configure.ts'
import { ClusterClient } from '../../origin/cluster-client.ts'
import { LocalCluster } from '../../origin/local-cluster.ts'
import { Failure } from '../../failure.ts'
import type { Cluster } from '../../ports.ts'
import { ObjectTransport } from './remote-cluster.ts'

/** Where the object of a pool is to live, and what it is to know. */
export interface PoolPlace extends PoolSource {
  /** Another gateway has the engines: what is sent there is counted here, and no object is asked. */
  readonly isRegional: boolean
  /** Part of the object's name: raise it to move the object. */
  readonly generation: number
  /** Counts only for the object's first request ever. */
  readonly locationHint: string | null
}

export interface DurableClustersOptions {
  /** The pool as configured now; null: there is no such pool. */
  readonly source: (clusterId: string, pool: string) => PoolPlace | null
}

/** Each pool of a cluster is one Durable Object, reached by RPC. */
export function durableClusters(
  namespace: DurableObjectNamespace<ClusterObject>,
  { source }: DurableClustersOptions,
): (clusterId: string, pool: string) => Cluster {
  const clusters = new Map<string, Cluster>()
  return (clusterId, pool) => {
    const key = JSON.stringify([clusterId, pool])
    const known = clusters.get(key)
    if (known !== undefined) return known
    let at: { readonly name: string; readonly id: DurableObjectId } | null = null
    const open = () => {
      const place = source(clusterId, pool)
      if (place === null) throw new Error('the pool is not in the configuration')
      const hint = place.locationHint === null ? {} : { locationHint: place.locationHint as DurableObjectLocationHint }
      // A stub that broke stays broken: each call gets a fresh one.
      const name = objectName(clusterId, pool, place.generation)
      // To make an id of a name is a keyed hash, which adds up.
      if (at?.name !== name) at = { name, id: namespace.idFromName(name) }
      return namespace.get(at.id, hint)
    }
    const books =
      source(clusterId, pool)?.isRegional === true ? isolateCluster() : new ClusterClient(new ObjectTransport(open))
    const cluster = withAutoConfigure(books, () => source(clusterId, pool))
    clusters.set(key, cluster)
    return cluster
  }
}

/** How often bookings that nobody renews are looked for; a lease is many times longer. */
const SWEEP_MS = 1_000

/** Books of what this isolate sends to another gateway. Nothing wakes an isolate: a request ends what has lapsed. */
function isolateCluster(): Cluster {
  const state = new ClusterState({ random: Math.random, epoch: crypto.randomUUID() })
  let sweptAt = 0
  const now = () => {
    const at = Date.now()
    if (at - sweptAt >= SWEEP_MS) {
      sweptAt = at
      state.expire(at)
    }
    return at
  }
  return new IsolateCluster(state, now)
}

/** The state of a region as one isolate sees it. A drain is refused: it would reach this isolate only. */
class IsolateCluster extends LocalCluster {
  override async observe(signals: readonly EngineSignal[]): Promise<void> {
    const drain = signals.find(({ kind }) => kind === 'drain')
    if (drain !== undefined) {
      throw new Failure(
        'bad_value',
        `'${drain.engine}' is another gateway, and on Workers a gateway cannot be drained. Set \`weight: 0\` ` +
          'on its cluster, or drain it there.',
        { param: 'engine' },
      )
    }
    return super.observe(signals)
  }
}

/** The name fixes where an object lives for good; a new generation is a new object. */
export function objectName(clusterId: string, pool: string, generation: number): string {
  return `cluster:${clusterId}:${pool}:g${generation}`
}
