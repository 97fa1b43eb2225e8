/** The stage before the prefill: every image, sound and video to an encode engine, so that its embedding is there when the prefill asks for it. */
import type { EngineTarget } from '../../ports.ts'
import type { Deal } from '../attempt-failed.ts'
import type { Exchange, PoolRoute } from '../exchange.ts'
import { EncodedItems, itemsOf, type EncodeItem } from './items.ts'
import { askLeg, type LegEnd } from './leg.ts'

const encoder = new TextEncoder()
const encodedBy = new WeakMap<PoolRoute, EncodedItems>()

function encodedOf(route: PoolRoute): EncodedItems {
  let encoded = encodedBy.get(route)
  if (encoded === undefined) {
    encoded = new EncodedItems(route.pool.split.encode.cachedItems)
    encodedBy.set(route, encoded)
  }
  return encoded
}

/** Items that no encoder is believed to hold. */
function missing({ json }: Exchange, route: PoolRoute): readonly EncodeItem[] {
  const encoded = encodedOf(route)
  return json === undefined ? [] : itemsOf(json).filter(({ key }) => !encoded.has(key))
}

/** How many items an encode stage would have to encode; 0 where the pool has no encoders. */
export function itemsToEncode(exchange: Exchange, route: PoolRoute): number {
  return route.pool.engines.some(({ role }) => role === 'encode') ? missing(exchange, route).length : 0
}

type Broken = Exclude<LegEnd, { readonly answer: unknown }>

/** One request an item, some at a time. null: all is encoded; else the first thing that went wrong, and the rest is called off. */
export async function encodeStage(deal: Deal, encoders: readonly string[]): Promise<Broken | null> {
  const { exchange, ports, placed, stages } = deal
  const { route } = placed
  const items = missing(exchange, route)
  const startedAt = ports.now()
  const underWay = new Set<AbortController>()
  const first: { broken: Broken | null } = { broken: null }
  let next = 0
  const work = async (): Promise<void> => {
    while (first.broken === null && next < items.length) {
      const at = next++
      const target = route.targets.get(encoders[at % encoders.length]!)!
      const own = new AbortController()
      const left = (): void => own.abort(exchange.signal.reason)
      if (exchange.signal.aborted) left()
      else exchange.signal.addEventListener('abort', left)
      underWay.add(own)
      const leg = await encode(deal, { item: items[at]!, at, target, signal: own.signal })
      underWay.delete(own)
      // A refusal is still to be read: it ends with the client.
      if (!('refusal' in leg)) exchange.signal.removeEventListener('abort', left)
      if ('answer' in leg) encodedOf(route).add(items[at]!.key, target.id)
      else if (first.broken === null) {
        first.broken = leg
        for (const other of underWay) other.abort()
      } else if ('refusal' in leg) leg.refusal.discard()
    }
  }
  const lanes = Array.from({ length: Math.min(items.length, route.pool.split.encode.concurrency) }, () => work())
  const ends = await Promise.allSettled(lanes)
  stages.add('encode', ports.now() - startedAt)
  const { broken } = first
  // What was called off by us is no failure; the client's leaving, or a bug, is told as it is.
  const thrown = ends.find((end) => end.status === 'rejected')
  if (thrown !== undefined && (broken === null || exchange.signal.aborted)) throw thrown.reason
  if (broken === null) placed.booking.legDone('encode', stages.snapshot())
  else if ('failed' in broken) encodedOf(route).forget(broken.failed.engine.id)
  return broken
}

interface Work {
  readonly item: EncodeItem
  readonly at: number
  readonly target: EngineTarget
  readonly signal: AbortSignal
}

/** As vLLM's `disagg_epd_proxy.py` asks: a chat of the item alone, one token, under an id of its own that names its parent. */
function encode(deal: Deal, { item, at, target, signal }: Work): Promise<LegEnd> {
  const { exchange, placed } = deal
  const { model } = exchange.admission(placed.route)
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: [item.part] }], max_tokens: 1, stream: false })
  const headers = exchange.headers.map((text, i, all) => (i % 2 === 1 && all[i - 1] === 'x-request-id' ? `${text}:${at}:${item.key.slice(-6)}` : text))
  return askLeg(deal, { target, path: '/v1/chat/completions', headers, body: [encoder.encode(body)], limitMs: placed.route.pool.split.encode.limitMs, signal })
}
