import type { ClusterGlance, Decision } from '../core/cluster/contract.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { Door } from './door.ts'
import { asShown, gatewayView, poolViews, regionsOf } from './pool-view.ts'
import { inTurns } from './turns.ts'
import { toWire } from './wire.ts'

/** What of the gateway is looked at. */
export type Watched = Pick<Door, 'ports' | 'catalog' | 'digests' | 'config' | 'startedAt' | 'draining' | 'retired'>

const DECISIONS = 60
/** An object that does not answer in this time is shown as out of reach, and holds up nobody's view. */
const ANSWER_MS = 5_000

/** A view is sent again and again: five digits are more than an eye takes in, and a third less to send. */
const brief = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(5)))

/** The whole fleet for the eye: pools as in `/v1/firstlight/fleet`, with the last TTFTs, and the last decisions of all. */
export async function glance(door: Watched): Promise<unknown> {
  const { ports, catalog } = door
  let decisions: readonly Decision[] = []
  const digests = await inTurns(ports.turn, catalog.routes, async (route) => {
    const seen = await glanceAt(door, route)
    if (seen !== null) decisions = [...decisions, ...seen.decisions].sort((a, b) => b.at - a.at).slice(0, DECISIONS)
    return seen && asShown(route, seen.digest)
  })
  // The next view has what is asked for behind this one.
  const regions = await regionsOf(door, false)
  return { ...gatewayView(door, digests), at: ports.now(), pools: await poolViews(door, { digests, regions }, brief), decisions: decisions.map(summary) }
}

async function glanceAt({ ports }: Watched, { cluster, pool }: PoolRoute): Promise<ClusterGlance | null> {
  const object = ports.cluster(cluster.id, pool.model)
  try {
    return await inTime(object.glance === undefined ? object.digest().then((digest) => ({ digest, decisions: [] })) : object.glance(DECISIONS))
  } catch (error) {
    ports.log.warn('glance_failed', { cluster: cluster.id, pool: pool.model, error })
    return null
  }
}

async function inTime<Answer>(answer: Promise<Answer>): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${ANSWER_MS} ms`)), ANSWER_MS)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

/** A decision without its candidates: `/v1/firstlight/decisions/{id}` has them. */
const summary = ({ candidates: _candidates, excluded, ...decision }: Decision): unknown => toWire({ ...decision, excluded: excluded.length }, brief)
