import type { StageTimes } from '../../core/contract/stages.ts'
import { serverTiming } from '../stage-timer.ts'

const encoder = new TextEncoder()

/**
 * Appends the stages to a stream as a last comment, which readers of events skip. They were not known when the head
 * was sent.
 */
export function withLastComment(response: Response, stages: () => StageTimes): Response {
  if (response.body === null) return response
  const end = new TransformStream<Uint8Array, Uint8Array>({
    // Not called for a truncated stream.
    flush: (controller) => controller.enqueue(encoder.encode(`: server-timing ${serverTiming(stages())}\n\n`)),
  })
  return new Response(response.body.pipeThrough(end), { status: response.status, headers: response.headers })
}
