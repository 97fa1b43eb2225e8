import type { Deal } from '../attempt-failed.ts'
import { encodeStage } from './encode.ts'
import { wholeLeg, type HandOver } from './last-leg.ts'
import { lmcacheLeg } from './lmcache.ts'
import { prefillLeg } from './prefill-leg.ts'

/** Runs the legs before the answer of a split or staged placement, in order. Rejects only with what is nobody's failure: the client is gone. */
export async function handOver(deal: Deal): Promise<HandOver> {
  const { placement, route } = deal.placed
  if (placement.kind === 'staged') {
    const encoded = await encodeStage(deal, placement.encode)
    if (encoded !== null) return encoded
  }
  const prefill = placement.kind === 'whole' || placement.prefill === null ? undefined : route.targets.get(placement.prefill)
  if (prefill === undefined) return { last: wholeLeg(deal) }
  return route.pool.split.connector === 'lmcache' ? lmcacheLeg(deal, prefill) : prefillLeg(deal, prefill)
}
