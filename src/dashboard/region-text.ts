/** What is known of the engines of a region, in words. */
import { dayAndClock, plural } from './format.ts'
import { silentSince } from './region.ts'
import type { RegionView } from './region-view.ts'
import type { Engine, Pool } from './wire.ts'

/** One line above the list of engines. */
export function regionViewText({ state, engines, listedAt }: RegionView, pool: Pool): string {
  const { cluster } = pool
  const list = engines === null ? '' : ` The list below is of ${dayAndClock(listedAt)}.`
  switch (state) {
    case 'reading':
      return `Reading the engines of ${cluster} …`
    case 'listed':
      return engines!.length === 0 ? `${cluster} has no engine of ${pool.model}.` : upText(engines!, cluster)
    case 'closed':
      return `To see the engines of ${cluster} and drain them here, set gateway.admin_key of the cluster.`
    case 'silent':
      return silenceText(pool) + list
    case 'failed':
      return `This gateway did not answer. Retrying …${list}`
  }
}

const upText = (engines: readonly Engine[], cluster: string): string =>
  `${engines.filter(({ available }) => available).length} of ${plural(engines.length, 'engine')} of ${cluster} up`

/** Why the region has not listed its engines, and since when. */
function silenceText(pool: Pool): string {
  const { cluster, gateway } = pool
  if (!gateway) return `The gateway of ${cluster} has not answered yet.`
  if (gateway.reachable)
    return (
      `The gateway of ${cluster} did not list its engines within 2 s, or rejects gateway.admin_key. Search the ` +
      'gateway log for region_admin_failed.'
    )
  const since = silentSince(pool)
  return `The gateway of ${cluster} has not answered${since === null ? '' : ` since ${dayAndClock(since)}`}.`
}

/** Result of a drain or undrain. */
export function drainText({ id, requests = 0 }: Pick<Engine, 'id' | 'requests'>, isDraining: boolean): string {
  if (!isDraining) return `${id} gets requests again.`
  const rest = requests === 0 ? 'none is running there' : `${plural(requests, 'running request')} will complete`
  return `${id} gets no new requests; ${rest}.`
}
