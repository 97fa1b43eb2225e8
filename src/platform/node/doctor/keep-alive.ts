/** How long a server keeps a connection that nobody uses. */
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Place } from './ask.ts'

export type KeptAlive =
  /** The server closed it; 0: with its answer. */
  | { readonly closedAfterMs: number }
  /** It was still open when we stopped to look. */
  | { readonly openAfterMs: number }

/** Asks for `path` once and watches the idle connection for `watchMs`. null: it could not be asked. */
export function watchIdle(place: Place, path: string, watchMs: number): Promise<KeptAlive | null> {
  return new Promise((resolve) => {
    const secure = place.url.startsWith('https:')
    const agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
    let timer: NodeJS.Timeout | undefined
    const done = (seen: KeptAlive | null): void => {
      clearTimeout(timer)
      agent.destroy()
      resolve(seen)
    }
    // Nobody may have to wait for a server that takes the connection and says nothing.
    timer = setTimeout(() => done(null), watchMs + 5_000)
    const request = (secure ? requestHttps : requestHttp)(place.url + path, { agent, headers: place.headers }, (response) => {
      if (response.headers.connection?.toLowerCase() === 'close') return done({ closedAfterMs: 0 })
      const { socket } = response
      response.resume()
      return void response.once('end', () => {
        const idleAt = performance.now()
        socket.once('close', () => done({ closedAfterMs: performance.now() - idleAt }))
        clearTimeout(timer)
        timer = setTimeout(() => done({ openAfterMs: performance.now() - idleAt }), watchMs)
      })
    })
    request.on('error', () => done(null))
    request.end()
  })
}
