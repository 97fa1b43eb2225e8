/** Engines that are the gateway itself: each request would come back to it until no socket is left. */
import type { Config } from '../config.ts'
import { isLoopback } from './values.ts'

/** `cluster, engine` of those whose URL is where this process listens, as far as addresses alone can tell. */
export function ownEngines({ listen, clusters }: Pick<Config, 'listen' | 'clusters'>): string[] {
  return clusters.flatMap(({ id, pools }) => pools.flatMap(({ engines }) => engines.filter(({ url }) => isOwn(listen, url)).map((engine) => `${id}, ${engine.id}`)))
}

function isOwn({ host, port }: Config['listen'], url: string): boolean {
  const { protocol, hostname, port: named } = new URL(url)
  // It speaks no TLS.
  if (protocol !== 'http:' || port !== Number(named === '' ? 80 : named)) return false
  const engine = hostname.replace(/^\[|\]$/g, '')
  const everywhere = host === '0.0.0.0' || host === '::'
  if (everywhere) return isLoopback(engine) || engine === '0.0.0.0' || engine === '::'
  return engine === host || ((engine === 'localhost' || host === 'localhost') && isLoopback(engine) && isLoopback(host))
}
