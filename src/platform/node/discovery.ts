/** Who is behind the names of engines: looked up again and again, so that a fleet may grow and shrink. */
import * as dns from 'node:dns/promises'
import { isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Config } from '../../config.ts'
import { namesIn, withFound } from '../../config/discover.ts'
import { ownEngines } from '../../config/validate.ts'
import type { Log } from '../../ports.ts'
import { withTimeout } from '../../timeout.ts'

/** Addresses of a name. Rejects with the system's error; with code ENOTFOUND where it has none. */
export type Lookup = (name: string) => Promise<readonly string[]>

/** A name that is unknown has no address; any other error says nothing of its addresses. Never rejects. */
export const lookedUp = (lookup: Lookup, name: string): Promise<readonly string[] | NodeJS.ErrnoException> =>
  lookup(name).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOTFOUND' ? [] : error))

/**
 * As connections are made: /etc/hosts and search domains count. An engine with addresses of both families is one
 * engine.
 */
export const systemLookup: Lookup = async (name) => {
  const found = await dns.lookup(name, { all: true })
  const family = found.some((one) => one.family === 4) ? 4 : 6
  return found.filter((one) => one.family === family).map(({ address }) => address)
}

export const ownAddresses = (): ReadonlySet<string> =>
  new Set(Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address)))

/** Name servers that leave an address out once mean nothing by it; addresses go to others after a while. */
const MISSES = 3
/** A start, a new configuration and the other names wait so long for an answer. */
const PATIENCE_MS = 3_000
const TICK_MS = 100

interface Name {
  everyMs: number
  dueAt: number
  /** Address → answers in a row without it. */
  readonly addresses: Map<string, number>
  /** It is being looked up. */
  asked: boolean
  failing: boolean
}

export interface DiscoveryParts {
  readonly lookup: Lookup
  readonly log: Log
  /** This machine's addresses. */
  readonly here?: () => ReadonlySet<string>
}

export class Discovery {
  readonly #parts: DiscoveryParts
  readonly #names = new Map<string, Name>()
  #looking = false
  #own = ''
  #left = ''
  /** Grows with every change of anybody's addresses; what it was when they were last asked for, and last taken. */
  #changes = 0
  #resolved = 0
  #settled = 0

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
  }

  /**
   * With the engines that are there. Names it has not heard of are looked up first, and from now on beside those it
   * follows.
   */
  async resolve(written: Config): Promise<Config> {
    const wanted = namesIn(written)
    const fresh = [...wanted].filter(([name]) => !this.#names.has(name))
    for (const [name, everyMs] of fresh)
      this.#names.set(name, {
        everyMs,
        dueAt: performance.now() + everyMs,
        addresses: new Map(),
        asked: false,
        failing: false,
      })
    await withTimeout(PATIENCE_MS, Promise.all(fresh.map(([name]) => this.#look(name))))
    for (const [name] of fresh) {
      if (this.#names.get(name)?.addresses.size === 0)
        this.#parts.log.warn('no_engines_found', {
          name,
          next: 'It is looked up again; requests for its engines are refused with 503 until it has an address.',
        })
    }
    this.#resolved = this.#changes
    const left: string[] = []
    const config = withFound(
      written,
      (name) => [...(this.#names.get(name)?.addresses.keys() ?? [])].sort(),
      (engine) => left.push(engine),
    )
    if (String(left) !== this.#left && left.length > 0)
      this.#parts.log.warn('engines_left_out', {
        engines: left,
        next: 'They get no requests, having the id or the address of another engine of their cluster: give each pattern an id and a name of its own.',
      })
    this.#left = String(left)
    return this.#withoutSelf(written, config)
  }

  /** A name that leads here, too, would have requests come back. */
  #withoutSelf(written: Config, config: Config): Config {
    const byHand = new Set(
      written.clusters.flatMap(({ id, pools }) => [
        id,
        ...pools.flatMap(({ engines }) => engines.map((engine) => `${id}, ${engine.id}`)),
      ]),
    )
    const own =
      config === written ? [] : ownEngines(config, this.#parts.here?.()).filter((engine) => !byHand.has(engine))
    if (String(own) !== this.#own && own.length > 0)
      this.#parts.log.warn('peer_is_self', {
        engines: own,
        next: 'They get no requests. Where names of engines lead to gateways too, these need a port or a Service of their own.',
      })
    this.#own = String(own)
    if (own.length === 0) return config
    const isOther = (cluster: string, engine: string) => !own.includes(`${cluster}, ${engine}`)
    return {
      ...config,
      clusters: config.clusters.map((cluster) => ({
        ...cluster,
        pools: cluster.pools.map((pool) => ({
          ...pool,
          engines: pool.engines.filter(({ id }) => isOther(cluster.id, id)),
        })),
      })),
    }
  }

  /** What was resolved last is in use: follows no names but its own from now on. */
  settle(written: Config): void {
    this.#settled = this.#resolved
    const wanted = namesIn(written)
    for (const [name, known] of this.#names) {
      const everyMs = wanted.get(name)
      if (everyMs === undefined) this.#names.delete(name)
      else {
        known.everyMs = everyMs
        known.dueAt = Math.min(known.dueAt, performance.now() + everyMs)
      }
    }
  }

  /** `changed`: a name has other addresses than those in use. The answer ends it. */
  watch(changed: () => void): () => void {
    const timer = setInterval(() => void this.#round(changed), TICK_MS).unref()
    return () => clearInterval(timer)
  }

  /**
   * One after the other, as far as they answer in time: lookups share few threads with each other and with connections
   * to names.
   */
  async #round(changed: () => void): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    for (const [name, known] of this.#names) {
      if (known.asked || known.dueAt > performance.now()) continue
      // Told also when it comes late.
      const looked = this.#look(name).then(() => {
        if (this.#changes !== this.#settled) changed()
      })
      await withTimeout(PATIENCE_MS, looked)
      known.dueAt = performance.now() + known.everyMs
    }
    this.#looking = false
  }

  /** An error says nothing of its addresses. Never rejects. */
  async #look(name: string): Promise<void> {
    const { lookup, log } = this.#parts
    const known = this.#names.get(name)!
    known.asked = true
    const found = await lookedUp(lookup, name)
    known.asked = false
    if (this.#names.get(name) !== known) return
    if (found instanceof Error) {
      if (!known.failing)
        log.warn('lookup_failed', {
          name,
          code: (found as NodeJS.ErrnoException).code,
          next: 'Its engines stay as they are until a name server answers.',
        })
      known.failing = true
      return
    }
    known.failing = false
    const change = update(known.addresses, found)
    if (change.added.length === 0 && change.gone.length === 0) return
    this.#changes += 1
    log.info('engines_found', { name, ...change, addresses: known.addresses.size })
  }
}

/**
 * Takes in one answer. One of another family is of the same engines, whose own addresses a name server failed to tell,
 * or lost: it counts once those are gone.
 */
function update(
  addresses: Map<string, number>,
  answer: readonly string[],
): { readonly added: string[]; readonly gone: string[] } {
  const [known] = addresses.keys()
  const isOther = known !== undefined && answer.length > 0 && isIPv6(known) !== isIPv6(answer[0]!)
  const isLast = [...addresses.values()].every((misses) => misses + 1 >= MISSES)
  const found = isOther && !isLast ? [] : answer
  const added = found.filter((address) => !addresses.has(address))
  const gone: string[] = []
  for (const [address, misses] of addresses) {
    if (found.includes(address)) continue
    if (misses + 1 < MISSES) addresses.set(address, misses + 1)
    else {
      addresses.delete(address)
      gone.push(address)
    }
  }
  for (const address of found) addresses.set(address, 0)
  return { added: [...new Set(added)], gone }
}
