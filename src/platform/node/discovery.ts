/** Who is behind the names of engines: looked up again and again, so that a fleet may grow and shrink. */
import * as dns from 'node:dns/promises'
import type { Config } from '../../config.ts'
import { namesIn, withFound } from '../../config/discovered.ts'
import type { Log } from '../../ports.ts'
import { within } from './within.ts'

/** Addresses of a name. Rejects with the system's error; with code ENOTFOUND where it has none. */
export type Lookup = (name: string) => Promise<readonly string[]>

/** As connections are made: /etc/hosts and search domains count. An engine with addresses of both families is one engine. */
export const systemLookup: Lookup = async (name) => {
  const found = await dns.lookup(name, { all: true })
  const family = found.some((one) => one.family === 4) ? 4 : 6
  return found.filter((one) => one.family === family).map(({ address }) => address)
}

/** Name servers that leave an address out once mean nothing by it; addresses go to others after a while. */
const MISSES = 3
/** A start, or a new configuration, waits so long for a first answer. */
const FIRST_MS = 3_000
const TICK_MS = 100

interface Name {
  everyMs: number
  dueAt: number
  /** Address → answers in a row without it. */
  readonly addresses: Map<string, number>
  failing: boolean
}

export interface DiscoveryParts {
  readonly lookup: Lookup
  readonly log: Log
  readonly now: () => number
}

export class Discovery {
  readonly #parts: DiscoveryParts
  readonly #names = new Map<string, Name>()
  #looking = false
  /** Grows with every change of anybody's addresses; what it was when they were last asked for, and last taken. */
  #changes = 0
  #resolved = 0
  #settled = 0

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
  }

  /** With the engines that are there. Names it has not heard of are looked up first, and from now on beside those it follows. */
  async resolve(written: Config): Promise<Config> {
    const wanted = namesIn(written)
    const fresh = [...wanted].filter(([name]) => !this.#names.has(name))
    for (const [name, everyMs] of fresh) this.#names.set(name, { everyMs, dueAt: this.#parts.now() + everyMs, addresses: new Map(), failing: false })
    await within(FIRST_MS, Promise.all(fresh.map(([name]) => this.#look(name))))
    for (const [name] of fresh) {
      if (this.#names.get(name)?.addresses.size === 0) this.#parts.log.warn('no_engines_found', { name, next: 'It is looked up again; requests for its engines are refused with 503 until it has an address.' })
    }
    this.#resolved = this.#changes
    return withFound(written, (name) => [...(this.#names.get(name)?.addresses.keys() ?? [])].sort())
  }

  /** What was resolved last is in use: follows no names but its own from now on. */
  settle(written: Config): void {
    this.#settled = this.#resolved
    const wanted = namesIn(written)
    for (const [name, known] of this.#names) {
      const everyMs = wanted.get(name)
      if (everyMs === undefined) this.#names.delete(name)
      else known.everyMs = everyMs
    }
  }

  /** `changed`: a name has other addresses than those in use. The answer ends it. */
  watch(changed: () => void): () => void {
    const timer = setInterval(() => void this.#round(changed), TICK_MS).unref()
    return () => clearInterval(timer)
  }

  /** One after the other: a resolver that hangs must not take all the threads that files are read by, too. */
  async #round(changed: () => void): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    let looked = false
    for (const [name, known] of this.#names) {
      if (known.dueAt > this.#parts.now()) continue
      looked = true
      await this.#look(name)
      known.dueAt = this.#parts.now() + known.everyMs
    }
    this.#looking = false
    if (looked && this.#changes !== this.#settled) changed()
  }

  /** An error says nothing of its addresses. Never rejects. */
  async #look(name: string): Promise<void> {
    const { lookup, log } = this.#parts
    const found = await lookup(name).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOTFOUND' ? [] : error))
    const known = this.#names.get(name)
    if (known === undefined) return
    if (found instanceof Error) {
      if (!known.failing) log.warn('lookup_failed', { name, code: (found as NodeJS.ErrnoException).code, next: 'Its engines stay as they are until a name server answers.' })
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

/** Takes in one answer. */
function update(addresses: Map<string, number>, found: readonly string[]): { readonly added: string[]; readonly gone: string[] } {
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
