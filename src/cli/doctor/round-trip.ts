/** Round trip time over an established connection. */
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Endpoint } from './ask.ts'

/** The first question opens the connection and is not counted. */
const QUESTIONS = 5

/** Measures the minimum of several round trips in milliseconds; null: no answer. */
export async function roundTripMs(place: Endpoint, path: string, limitMs: number): Promise<number | null> {
  const isSecure = place.url.startsWith('https:')
  const agent = new (isSecure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
  const once = () =>
    new Promise<number>((resolve, reject) => {
      const startedAt = performance.now()
      const request = (isSecure ? requestHttps : requestHttp)(
        place.url + path,
        { agent, headers: place.headers, signal: AbortSignal.timeout(limitMs) },
        (response) => {
          const tookMs = performance.now() - startedAt
          response
            .resume()
            .once('end', () => resolve(tookMs))
            .once('error', reject)
        },
      )
      request.once('error', reject).end()
    })
  try {
    await once()
    let minMs = Infinity
    for (let round = 1; round < QUESTIONS; round++) minMs = Math.min(minMs, await once())
    return minMs
  } catch {
    return null
  } finally {
    agent.destroy()
  }
}
