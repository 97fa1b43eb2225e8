/** Discovery of engines by DNS: names are resolved periodically, so a fleet may grow and shrink. */
import { isIPv6 } from 'node:net'
import type { Config } from '../../config.ts'
import { namesIn } from '../../config/discover.ts'
import type { Log } from '../../ports/log.ts'
import { withTimeout } from '../../timeout.ts'
import { type Lookup, lookupOrError } from './dns-lookup.ts'

/** An address is removed after this many answers in a row without it, because name servers may omit addresses. */
const MISSES = 3

/** Time in milliseconds for which a start, a reload and other names wait for an answer. */
export const LOOKUP_WAIT_MS = 3_000

interface Name {
  everyMs: number
  dueAt: number
  /** Address → number of consecutive answers without it. */
  readonly addresses: Map<string, number>
  /** True while a lookup is running. */
  isLookingUp: boolean
  failing: boolean
}

interface DnsDiscoveryParts {
  readonly lookup: Lookup
  readonly log: Log
  /** Called when the addresses of a name differ from before. */
  changed(): void
  /** Called after each answer to `lookUpDue`. */
  lookedUp(): void
}

export class DnsDiscovery {
  readonly #parts: DnsDiscoveryParts
  readonly #names = new Map<string, Name>()
  #isInRound = false

  constructor(parts: DnsDiscoveryParts) {
    this.#parts = parts
  }

  /** Follows the names of a configuration. Returns the new ones; `listed` resolves when they have been looked up. */
  start(written: Config): { readonly fresh: readonly string[]; readonly listed: Promise<unknown> } {
    const fresh = [...namesIn(written)].filter(([name]) => !this.#names.has(name))
    for (const [name, everyMs] of fresh)
      this.#names.set(name, {
        everyMs,
        dueAt: performance.now() + everyMs,
        addresses: new Map(),
        isLookingUp: false,
        failing: false,
      })
    const names = fresh.map(([name]) => name)
    return { fresh: names, listed: Promise.all(names.map((name) => this.#look(name))) }
  }

  addressesOf(name: string): readonly string[] {
    return [...(this.#names.get(name)?.addresses.keys() ?? [])].sort()
  }

  /** Stops following names that the configuration does not contain. */
  settle(written: Config): void {
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

  /**
   * Resolves the names that are due one after the other within the time limit, because lookups share few threads with
   * connections to names.
   */
  async lookUpDue(): Promise<void> {
    if (this.#isInRound) return
    this.#isInRound = true
    for (const [name, known] of this.#names) {
      if (known.isLookingUp || known.dueAt > performance.now()) continue
      // A late answer counts too.
      const looked = this.#look(name).then(() => this.#parts.lookedUp())
      await withTimeout(LOOKUP_WAIT_MS, looked)
      known.dueAt = performance.now() + known.everyMs
    }
    this.#isInRound = false
  }

  /** An error leaves the addresses unchanged. Never rejects. */
  async #look(name: string): Promise<void> {
    const { lookup, log, changed } = this.#parts
    const known = this.#names.get(name)!
    known.isLookingUp = true
    const found = await lookupOrError(lookup, name)
    known.isLookingUp = false
    if (this.#names.get(name) !== known) return
    if (found instanceof Error) {
      if (!known.failing)
        log.warn('lookup_failed', {
          name,
          code: (found as NodeJS.ErrnoException).code,
          next: 'Its engines are kept until a name server answers.',
        })
      known.failing = true
      return
    }
    known.failing = false
    const change = update(known.addresses, found)
    if (change.added.length === 0 && change.removed.length === 0) return
    changed()
    log.info('engines_found', { name, ...change, addresses: known.addresses.size })
  }
}

/**
 * Applies one answer. An answer with the other address family belongs to the same engines and replaces the present
 * addresses only when these are gone.
 */
function update(
  addresses: Map<string, number>,
  answer: readonly string[],
): { readonly added: string[]; readonly removed: string[] } {
  const [known] = addresses.keys()
  const isOther = known !== undefined && answer.length > 0 && isIPv6(known) !== isIPv6(answer[0]!)
  const isLast = [...addresses.values()].every((misses) => misses + 1 >= MISSES)
  const found = isOther && !isLast ? [] : answer
  const added = found.filter((address) => !addresses.has(address))
  const removed: string[] = []
  for (const [address, misses] of addresses) {
    if (found.includes(address)) continue
    if (misses + 1 < MISSES) addresses.set(address, misses + 1)
    else {
      addresses.delete(address)
      removed.push(address)
    }
  }
  for (const address of found) addresses.set(address, 0)
  return { added: [...new Set(added)], removed }
}
