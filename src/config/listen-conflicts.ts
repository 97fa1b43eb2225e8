/** Addresses that conflict with the gateway's own listener. */
import type { Config } from '../config.ts'
import { urlHost } from '../url.ts'
import { isLoopback } from './address.ts'

/**
 * Returns `cluster, engine` for each URL at which this process listens, as far as addresses show: its requests would
 * loop. For a cluster behind a gateway, only its name.
 */
export function enginesAtOwnAddress(
  { listen, clusters }: Pick<Config, 'listen' | 'clusters'>,
  localHosts: ReadonlySet<string> = NO_HOSTS,
): string[] {
  const own = clusters.flatMap(({ id, gateway, pools }) =>
    pools.flatMap(({ engines }) =>
      engines
        .filter(({ url }) => isOwnAddress(listen, url, localHosts))
        .map((engine) => (gateway === null ? `${id}, ${engine.id}` : id)),
    ),
  )
  return [...new Set(own)]
}

const NO_HOSTS: ReadonlySet<string> = new Set()

function isOwnAddress({ host, port }: Config['listen'], url: string, localHosts: ReadonlySet<string>): boolean {
  const at = new URL(url)
  // The gateway does not serve TLS.
  if (at.protocol !== 'http:' || port !== Number(at.port === '' ? 80 : at.port)) return false
  const engine = urlHost(at)
  if (isAnyAddress(host)) return isLoopback(engine) || isAnyAddress(engine) || localHosts.has(engine)
  return isSameHost(engine, host)
}

/** Whether reports share the main port. With threads, each listener would get half of the requests of both. */
export function reportsShareMainPort({ listen, ttft }: Pick<Config, 'listen' | 'ttft'>): boolean {
  return ttft.enabled && ttft.listen !== null && isSamePort(listen, ttft.listen)
}

/** Whether two listeners would open the same port. */
export function isSamePort(one: Config['listen'], other: Config['listen']): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  return [one.host, other.host].some(isAnyAddress) || isSameHost(one.host, other.host)
}

const isAnyAddress = (host: string): boolean => host === '0.0.0.0' || host === '::'

const isSameHost = (one: string, other: string): boolean =>
  one === other || ((one === 'localhost' || other === 'localhost') && isLoopback(one) && isLoopback(other))
