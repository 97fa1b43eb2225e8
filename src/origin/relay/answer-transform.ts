import type { Usage } from '../../core/contract/outcome.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { RelayOptions } from '../../ports/relay.ts'
import { EventSplitter } from '../../protocols/stream/event-splitter.ts'
import { dataRecord, payloadOf } from './sse-records.ts'

/** Conversion of one engine response to the client's response. */
export interface AnswerTransform {
  /** Maps the payload of one `data:` event to the payloads to send instead. Also gets `[DONE]` and errors. */
  event(payload: string): readonly string[]
  /** Maps a whole response that is no stream. */
  whole(answer: Readonly<Record<string, unknown>>): unknown
  /** Maps the engine's token counts to the client's. */
  usage(counted: Usage): Usage
}

/**
 * Relays a response as usual, then converts its events: observer, limits and error event are the same as without a
 * transform.
 */
export function relayTransformed(answer: OriginAnswer, options: RelayOptions, transform: AnswerTransform): Response {
  // The platform writes to the client's socket if it has one, and would bypass the transform; without one it returns a
  // stream.
  const passed = answer.pass({ ...options, scope: { ...options.scope, client: null } })
  if (passed.body === null) return passed
  const body = answer.sse ? transformedEvents(passed.body, transform) : transformedBody(passed.body, transform)
  return new Response(body, { status: passed.status, headers: passed.headers })
}

const encoder = new TextEncoder()

const utf8 = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })

function transformedEvents(source: ReadableStream<Uint8Array>, transform: AnswerTransform): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  const events = new EventSplitter()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) {
          const rest = events.end()
          if (rest.length > 0) controller.enqueue(rest)
          controller.close()
          return
        }
        const { bytes, ends } = events.take(value)
        const text = ends.map((end, i) =>
          transformedRecord(utf8.decode(bytes.subarray(ends[i - 1] ?? 0, end)), transform),
        )
        if (text.length === 0) continue
        controller.enqueue(encoder.encode(text.join('')))
        return
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

/** Comments and named events pass unchanged. */
function transformedRecord(record: string, transform: AnswerTransform): string {
  const payload = payloadOf(record)
  return payload === null ? record : transform.event(payload).map(dataRecord).join('')
}

function transformedBody(source: ReadableStream<Uint8Array>, transform: AnswerTransform): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(encoder.encode(transformedText(await new Response(source).text(), transform)))
      controller.close()
    },
  })
}

/** Text that is no JSON passes unchanged. */
function transformedText(text: string, transform: AnswerTransform): string {
  try {
    return JSON.stringify(transform.whole(JSON.parse(text) as Readonly<Record<string, unknown>>))
  } catch {
    return text
  }
}
