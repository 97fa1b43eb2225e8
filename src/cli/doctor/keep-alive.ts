/** How long a server keeps an idle connection. */
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Endpoint } from './ask.ts'

export type KeepAliveResult =
  /** The server closed it; 0: together with the answer. */
  | { readonly closedAfterMs: number }
  /** Still open at the end of the observation. */
  | { readonly openAfterMs: number }

/** Sends one GET to `path` and watches the idle connection for `watchMs`. null: no answer. */
export function watchIdle(place: Endpoint, path: string, watchMs: number): Promise<KeepAliveResult | null> {
  return new Promise((resolve) => {
    const secure = place.url.startsWith('https:')
    const agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
    let timer: NodeJS.Timeout | undefined
    const done = (seen: KeepAliveResult | null): void => {
      clearTimeout(timer)
      agent.destroy()
      resolve(seen)
    }
    // Bounds the wait for a server that accepts the connection and never answers.
    timer = setTimeout(() => done(null), watchMs + 5_000)
    const request = (secure ? requestHttps : requestHttp)(
      place.url + path,
      { agent, headers: place.headers },
      (response) => {
        if (response.headers.connection?.toLowerCase() === 'close') return done({ closedAfterMs: 0 })
        const { socket } = response
        response.resume()
        return void response.once('end', () => {
          const idleAt = performance.now()
          socket.once('close', () => done({ closedAfterMs: performance.now() - idleAt }))
          clearTimeout(timer)
          timer = setTimeout(() => done({ openAfterMs: performance.now() - idleAt }), watchMs)
        })
      },
    )
    request.on('error', () => done(null))
    request.end()
  })
}
