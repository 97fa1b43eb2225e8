/** What cannot be where the gateway listens. */
import type { Config } from '../config.ts'
import { bareHost } from './place.ts'
import { isLoopback } from './values.ts'

/**
 * `cluster, engine` of those whose URL is where this process listens, as far as addresses alone can tell: each request would
 * only come back to it. Of a cluster behind a gateway, its name.
 */
export function ownEngines({ listen, clusters }: Pick<Config, 'listen' | 'clusters'>, here: ReadonlySet<string> = NOWHERE): string[] {
  const own = clusters.flatMap(({ id, gateway, pools }) => pools.flatMap(({ engines }) => engines.filter(({ url }) => isOwn(listen, url, here)).map((engine) => (gateway === undefined ? `${id}, ${engine.id}` : id))))
  return [...new Set(own)]
}

const NOWHERE: ReadonlySet<string> = new Set()

function isOwn({ host, port }: Config['listen'], url: string, here: ReadonlySet<string>): boolean {
  const at = new URL(url)
  // It speaks no TLS.
  if (at.protocol !== 'http:' || port !== Number(at.port === '' ? 80 : at.port)) return false
  const engine = bareHost(at)
  if (isEverywhere(host)) return isLoopback(engine) || isEverywhere(engine) || here.has(engine)
  return isSameHost(engine, host)
}

/** Do reports come in on the port of everybody else? Threads share ports: each listener would get half of both. */
export function reportsShareThePort({ listen, ttft }: Pick<Config, 'listen' | 'ttft'>): boolean {
  return ttft.enabled && ttft.listen !== null && isSamePort(listen, ttft.listen)
}

/** What else listens where replicas read; null: nothing. */
export function sharedWithReplicas({ listen, ttft, replicas }: Pick<Config, 'listen' | 'ttft' | 'replicas'>): 'listen' | 'ttft.listen' | null {
  if (replicas === null) return null
  if (isSamePort(listen, replicas.listen)) return 'listen'
  return ttft.enabled && ttft.listen !== null && isSamePort(ttft.listen, replicas.listen) ? 'ttft.listen' : null
}

function isSamePort(one: Config['listen'], other: Config['listen']): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  return [one.host, other.host].some(isEverywhere) || isSameHost(one.host, other.host)
}

const isEverywhere = (host: string): boolean => host === '0.0.0.0' || host === '::'

const isSameHost = (one: string, other: string): boolean => one === other || ((one === 'localhost' || other === 'localhost') && isLoopback(one) && isLoopback(other))
