import type { StageTimes } from '../core/cluster/contract.ts'
import { serverTiming } from './stages.ts'

const encoder = new TextEncoder()

/** The stages, which the head of a stream came too early to know, as a comment behind it: readers of events skip it. */
export function withLastComment(response: Response, stages: () => StageTimes): Response {
  if (response.body === null) return response
  const end = new TransformStream<Uint8Array, Uint8Array>({
    // Not called for a stream that broke.
    flush: (controller) => controller.enqueue(encoder.encode(`: server-timing ${serverTiming(stages())}\n\n`)),
  })
  return new Response(response.body.pipeThrough(end), { status: response.status, headers: response.headers })
}
