/** From where an address is reachable, as far as it can be inferred. */
import { urlHost } from '../../url.ts'
import { isLoopback } from '../../config/fields.ts'
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Endpoint } from './ask.ts'

/* How long a server keeps an idle connection. */

export type KeptAlive =
  /** The server closed it; 0: together with the answer. */
  | { readonly closedAfterMs: number }
  /** Still open at the end of the observation. */
  | { readonly openAfterMs: number }

/** Sends one GET to `path` and watches the idle connection for `watchMs`. null: no answer. */
export function watchIdle(place: Endpoint, path: string, watchMs: number): Promise<KeptAlive | null> {
  return new Promise((resolve) => {
    const secure = place.url.startsWith('https:')
    const agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
    let timer: NodeJS.Timeout | undefined
    const done = (seen: KeptAlive | null): void => {
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

export type Reach = 'loopback' | 'private' | 'public'

/** Names that resolve only inside a network: no dot, or a reserved suffix. */
const INSIDE = /^[^.]+$|\.(local|internal|lan|home|svc|cluster\.local|localdomain)$/

export function reachOf(url: string): Reach {
  const host = urlHost(new URL(url)).toLowerCase()
  if (isLoopback(host)) return 'loopback'
  return isPrivateAddress(host) || (!host.includes(':') && INSIDE.test(host)) ? 'private' : 'public'
}

function isPrivateAddress(host: string): boolean {
  const parts = /^(\d+)\.(\d+)\.\d+\.\d+$/.exec(host)
  if (parts === null) return /^f[cd][0-9a-f]{2}:|^fe[89ab][0-9a-f]:/.test(host)
  const [first, second] = [Number(parts[1]), Number(parts[2])]
  if (first === 10 || (first === 192 && second === 168) || (first === 169 && second === 254)) return true
  return (first === 172 && second >= 16 && second < 32) || (first === 100 && second >= 64 && second < 128)
}
