import * as dns from 'node:dns/promises'
import { networkInterfaces } from 'node:os'

/** Resolves a name to addresses. Rejects with the system's error; with code ENOTFOUND if there is none. */
export type Lookup = (name: string) => Promise<readonly string[]>

/** Resolves a name. An unknown name has no addresses; any other error leaves them unknown. Never rejects. */
export const lookupOrError = (lookup: Lookup, name: string): Promise<readonly string[] | NodeJS.ErrnoException> =>
  lookup(name).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOTFOUND' ? [] : error))

/**
 * Resolves names as connections do, with /etc/hosts and search domains. An engine with addresses of both families
 * counts once.
 */
export const systemLookup: Lookup = async (name) => {
  const found = await dns.lookup(name, { all: true })
  const family = found.some((one) => one.family === 4) ? 4 : 6
  return found.filter((one) => one.family === family).map(({ address }) => address)
}

export const ownAddresses = (): ReadonlySet<string> =>
  new Set(Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address)))
