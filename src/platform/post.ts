/** Sends a document to a service that is no engine, on any platform. */
import type { ServiceClient } from '../ports/services.ts'

/** Time limit, ms, of a call to a collector or webhook. */
const POST_MS = 10_000

export const post: ServiceClient['post'] = async (url, headers, body) => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { ...headers },
    body,
    signal: AbortSignal.timeout(POST_MS),
  })
  await answer.body?.cancel()
  return answer.status
}
