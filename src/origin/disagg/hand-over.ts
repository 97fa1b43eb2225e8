/** The legs before the answer of a split or staged placement. */
import type { EngineTarget, OriginAnswer } from '../../ports.ts'
import type { AttemptFailed, Deal } from '../attempt-failed.ts'
import { encodeStage } from './encode.ts'
import type { AnswerChange } from './change.ts'
import { lmcacheLeg } from './lmcache.ts'
import { prefillLeg } from './prefill-leg.ts'

/** The request whose answer is the client's. */
export interface LastLeg {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[] | null
  /** What happened on the way, for the decision header. */
  readonly notes: readonly string[]
  /** How the answer differs from the one the client asked for; null: not at all. */
  readonly change: AnswerChange | null
}

export type HandOver =
  | { readonly last: LastLeg }
  /** An engine's own word to the client, before the answer. */
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** Runs the legs in order. Rejects only with what is nobody's failure: the client is gone. */
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

/** The client's request to one engine that does all of it. */
export function wholeLeg({ exchange, placed }: Deal, notes: readonly string[] = []): LastLeg {
  return { target: placed.engine, path: exchange.path, body: exchange.body(placed.route), notes, change: null }
}
