/** The way to a server and back, over a connection that stands. */
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Place } from './ask.ts'

/** The first one opens the connection, and does not count. */
const QUESTIONS = 5

/** The least of a few, in milliseconds; null: it cannot be asked. */
export async function roundTripMs(place: Place, path: string, limitMs: number): Promise<number | null> {
  const isSecure = place.url.startsWith('https:')
  const agent = new (isSecure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
  const once = () =>
    new Promise<number>((resolve, reject) => {
      const startedAt = performance.now()
      const request = (isSecure ? requestHttps : requestHttp)(place.url + path, { agent, headers: place.headers, signal: AbortSignal.timeout(limitMs) }, (response) => {
        const tookMs = performance.now() - startedAt
        response.resume().once('end', () => resolve(tookMs)).once('error', reject)
      })
      request.once('error', reject).end()
    })
  try {
    await once()
    let leastMs = Infinity
    for (let asked = 1; asked < QUESTIONS; asked++) leastMs = Math.min(leastMs, await once())
    return leastMs
  } catch {
    return null
  } finally {
    agent.destroy()
  }
}
