/**
 * Encode stage, before the prefill: sends each image, audio and video to an encode engine, so that its embedding is
 * ready when the prefill engine needs it.
 */
import { BoundedMap } from '../../core/bounded-map.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AttemptContext } from '../attempt-context.ts'
import type { Exchange, PoolRoute } from '../exchange.ts'
import { callLeg, type LegOutcome } from './legs.ts'
import { chainText } from '../../core/tokens/block-hash.ts'

/* Images, audio and videos of a request as separate items. */

type Json = Readonly<Record<string, unknown>>

interface EncodeItem {
  /** A content part of a chat message. */
  readonly part: Json
  /** Hash of the content: equal items have equal keys. */
  readonly key: string
}

/** Content parts that an encoder reads, by the field with their content. */
const CHAT_PARTS: ReadonlySet<string> = new Set(['image_url', 'audio_url', 'input_audio', 'video_url'])

/**
 * Returns the items in the order of the request, without duplicates. Never throws: the engine reports malformed parts.
 * @testing
 */
export function itemsOf(json: Json): readonly EncodeItem[] {
  const found = new Map<string, EncodeItem>()
  for (const list of [json['messages'], json['input']]) {
    if (!Array.isArray(list)) continue
    for (const message of list as (Json | null)[]) {
      const content = message?.['content']
      if (!Array.isArray(content)) continue
      for (const given of content as unknown[]) {
        const part = chatPart(given)
        if (part === null) continue
        const key = keyOf(part)
        if (key !== null && !found.has(key)) found.set(key, { part, key })
      }
    }
  }
  return [...found.values()]
}

/** null: text, or a part that no encoder reads. */
function chatPart(given: unknown): Json | null {
  if (typeof given !== 'object' || given === null) return null
  const part = given as Json
  const { type } = part
  if (typeof type !== 'string') return null
  if (CHAT_PARTS.has(type)) return part[type] === undefined ? null : part
  // The Responses API has the URL itself in this field.
  if (type === 'input_image' && typeof part['image_url'] === 'string')
    return { type: 'image_url', image_url: { url: part['image_url'] } }
  return null
}

/** null: nested too deeply for JSON text, so it cannot be sent to an encoder either. */
function keyOf(part: Json): string | null {
  const state = { lo: 0x2c1b3c6d, hi: 0x297a2d39 }
  try {
    chainText(state, JSON.stringify(part))
  } catch {
    return null
  }
  return (state.hi >>> 0).toString(16).padStart(8, '0') + (state.lo >>> 0).toString(16).padStart(8, '0')
}

/** Items that each encoder probably holds. Bounded; the least recently used item is dropped first. @testing */
export class EncodedItems {
  readonly #engineOf: BoundedMap<string, string>

  constructor(limit: number) {
    this.#engineOf = new BoundedMap(limit)
  }

  has(key: string): boolean {
    const engine = this.#engineOf.get(key)
    if (engine === undefined) return false
    this.#engineOf.set(key, engine)
    return true
  }

  add(key: string, engine: string): void {
    this.#engineOf.set(key, engine)
  }

  /** Drops the items of an engine that failed. */
  forget(engine: string): void {
    for (const [key, holder] of this.#engineOf) if (holder === engine) this.#engineOf.delete(key)
  }
}

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

/** Items that no encoder holds. */
function missing({ json }: Exchange, route: PoolRoute): readonly EncodeItem[] {
  const encoded = encodedOf(route)
  return json === undefined ? [] : itemsOf(json).filter(({ key }) => !encoded.has(key))
}

/** Number of items that an encode stage would encode. 0 if the pool has no encoders. */
export function itemsToEncode(exchange: Exchange, route: PoolRoute): number {
  return route.pool.engines.some(({ role }) => role === 'encode') ? missing(exchange, route).length : 0
}

type Broken = Exclude<LegOutcome, { readonly answer: unknown }>

/**
 * Sends one request per item, several at a time. null: all items are encoded. Otherwise the first failure; the
 * remaining requests are aborted.
 */
export async function encodeStage(attempt: AttemptContext, encoders: readonly string[]): Promise<Broken | null> {
  const { exchange, ports, placed, stages } = attempt
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
      const leg = await encode(attempt, { item: items[at]!, at, target, signal: own.signal })
      underWay.delete(own)
      // The body of an error response is still to be read, and ends with the client.
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
  // Requests that the stage aborted itself are no failures. A client disconnect or a defect is thrown as it is.
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

/**
 * Sends the request of vLLM's `disagg_epd_proxy.py`: a chat with the item alone, one token, and an id derived from the
 * request's id.
 */
function encode(attempt: AttemptContext, { item, at, target, signal }: Work): Promise<LegOutcome> {
  const { exchange, placed } = attempt
  const { model } = exchange.admission(placed.route)
  const body = JSON.stringify({
    model,
    messages: [{ role: 'user', content: [item.part] }],
    max_tokens: 1,
    stream: false,
  })
  const headers = exchange.headers.map((text, i, all) =>
    i % 2 === 1 && all[i - 1] === 'x-request-id' ? `${text}:${at}:${item.key.slice(-6)}` : text,
  )
  return callLeg(attempt, {
    target,
    path: '/v1/chat/completions',
    headers,
    body: [encoder.encode(body)],
    limitMs: placed.route.pool.split.encode.limitMs,
    signal,
  })
}
