/** From where an address can be reached, as far as it shows. */
import { urlHost } from '../../url.ts'
import { isLoopback } from '../../config/fields.ts'
import { Agent as HttpAgent, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Endpoint } from './ask.ts'

/* How long a server keeps a connection that nobody uses. */

export type KeptAlive =
  /** The server closed it; 0: with its answer. */
  | { readonly closedAfterMs: number }
  /** It was still open when we stopped to look. */
  | { readonly openAfterMs: number }

/** Asks for `path` once and watches the idle connection for `watchMs`. null: it could not be asked. */
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
    // Nobody may have to wait for a server that takes the connection and says nothing.
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

/** Names that are only known inside: no dot, or a suffix nobody can register. */
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
