/**
 * Encode stage, before the prefill: sends each image, audio and video to an encode engine, so that its embedding is
 * ready when the prefill engine needs it.
 */
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AttemptContext } from '../attempt-context.ts'
import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import { targetOf } from '../rank-targets.ts'
import { callLeg, type LegOutcome } from './call-leg.ts'
import { type MediaItem, mediaItemsOf } from '../../protocols/media-items.ts'
import { encoderCacheOf } from './encoder-cache.ts'

const encoder = new TextEncoder()

/** Items that no encoder holds. */
function missingItems({ source: { json }, protocol }: Exchange, route: PoolRoute): readonly MediaItem[] {
  const parts = json === undefined ? [] : (protocol.media?.(json) ?? [])
  if (parts.length === 0) return []
  const encoded = encoderCacheOf(route)
  return mediaItemsOf(parts).filter(({ key }) => !encoded.has(key))
}

/** Number of items that an encode stage would encode. 0 if the pool has no encoders. */
export function itemsToEncode(exchange: Exchange, route: PoolRoute): number {
  return route.pool.engines.some(({ role }) => role === 'encode') ? missingItems(exchange, route).length : 0
}

type EncodeFailure = Exclude<LegOutcome, { readonly answer: unknown }>

/**
 * Sends one request per item, several at a time. null: all items are encoded. Otherwise the first failure; the
 * remaining requests are aborted.
 */
export async function encodeStage(attempt: AttemptContext, encoders: readonly string[]): Promise<EncodeFailure | null> {
  const { exchange, ports, placed, stages } = attempt
  const { route } = placed
  const items = missingItems(exchange, route)
  const startedAt = ports.now()
  const underWay = new Set<AbortController>()
  const first: { failure: EncodeFailure | null } = { failure: null }
  let next = 0
  const work = async (): Promise<void> => {
    while (first.failure === null && next < items.length) {
      const at = next++
      const target = targetOf(route.targets, encoders[at % encoders.length]!)!
      const controller = new AbortController()
      const abort = (): void => controller.abort(exchange.signal.reason)
      if (exchange.signal.aborted) abort()
      else exchange.signal.addEventListener('abort', abort)
      underWay.add(controller)
      const leg = await encode(attempt, { item: items[at]!, at, target, signal: controller.signal })
      underWay.delete(controller)
      // The body of an error response is still to be read, and ends with the client.
      if (!('errorAnswer' in leg)) exchange.signal.removeEventListener('abort', abort)
      if ('answer' in leg) encoderCacheOf(route).add(items[at]!.key, target.id)
      else if (first.failure === null) {
        first.failure = leg
        for (const other of underWay) other.abort()
      } else if ('errorAnswer' in leg) leg.errorAnswer.discard()
    }
  }
  const lanes = Array.from({ length: Math.min(items.length, route.pool.split.encode.concurrency) }, () => work())
  const ends = await Promise.allSettled(lanes)
  stages.add('encode', ports.now() - startedAt)
  const { failure } = first
  // Requests that the stage aborted itself are no failures. A client disconnect or a defect is thrown as it is.
  const thrown = ends.find((end) => end.status === 'rejected')
  if (thrown !== undefined && (failure === null || exchange.signal.aborted)) throw thrown.reason
  if (failure === null) placed.booking.legDone('encode', stages.snapshot())
  else if ('failed' in failure) encoderCacheOf(route).forget(failure.failed.engine.id)
  return failure
}

interface EncodeCall {
  readonly item: MediaItem
  readonly at: number
  readonly target: EngineTarget
  readonly signal: AbortSignal
}

/**
 * Sends the request of vLLM's `disagg_epd_proxy.py`: a chat with the item alone, one token, and an id derived from the
 * request's id.
 */
function encode(attempt: AttemptContext, { item, at, target, signal }: EncodeCall): Promise<LegOutcome> {
  const { exchange, placed } = attempt
  const { model } = exchange.source.admission(placed.route)
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
