/** Service discovery by DNS and in Kubernetes. Names are resolved periodically, so a fleet may grow and shrink. */
import { isIPv6 } from 'node:net'
import type { Config } from '../../config.ts'
import { namesIn, singleAddressNote, withDiscovered } from '../../config/discover.ts'
import { podsText } from '../../config/pods-text.ts'
import { enginesAtOwnAddress } from '../../config/listen-conflicts.ts'
import type { Log } from '../../ports/log.ts'
import { withTimeout } from '../../timeout.ts'
import { type Lookup, lookupOrError } from './dns-lookup.ts'
import { kubernetesAccess } from './kubernetes/access.ts'
import { PodDiscovery } from './kubernetes/pod-discovery.ts'

/** An address is removed after this many answers in a row without it, because name servers may omit addresses. */
const MISSES = 3

/** Time in milliseconds that a start, a reload and other names wait for an answer. */
const WAIT_MS = 3_000

const TICK_MS = 100

/** Time after which a change of pods that was not applied is reported again. */
const REPEAT_MS = 5_000

interface Name {
  everyMs: number
  dueAt: number
  /** Address → number of consecutive answers without it. */
  readonly addresses: Map<string, number>
  /** True while a lookup is running. */
  isLookingUp: boolean
  failing: boolean
}

interface DiscoveryParts {
  readonly lookup: Lookup
  readonly log: Log
  /** Addresses of this host. */
  readonly here?: () => ReadonlySet<string>
  /** Environment for access to Kubernetes. Absent: of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

export class Discovery {
  readonly #parts: DiscoveryParts
  readonly #names = new Map<string, Name>()
  #looking = false
  #own = ''
  #leftOut = ''
  /** Counts changes of any name's addresses. The other two hold its value at the last check and at the last use. */
  #changes = 0
  #resolved = 0
  #settled = 0
  readonly #pods: PodDiscovery
  #changed: () => void = () => undefined
  /** Time of the next call of `changed` if the change of a pod was not applied. */
  #repeatAt = Infinity

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
    const { log, env = process.env } = parts
    const changed = () => {
      this.#changes += 1
      this.#repeatAt = performance.now() + REPEAT_MS
      this.#changed()
    }
    this.#pods = new PodDiscovery({ access: () => kubernetesAccess(env), log, changed })
  }

  /** Replaces names by their engines. Resolves unknown names first, and follows them from then on. */
  async resolve(written: Config): Promise<Config> {
    const wanted = namesIn(written)
    const fresh = [...wanted].filter(([name]) => !this.#names.has(name))
    for (const [name, everyMs] of fresh)
      this.#names.set(name, {
        everyMs,
        dueAt: performance.now() + everyMs,
        addresses: new Map(),
        isLookingUp: false,
        failing: false,
      })
    const pods = this.#pods.start(written)
    await withTimeout(WAIT_MS, Promise.all([pods.listed, ...fresh.map(([name]) => this.#look(name))]))
    this.#warnOfMissing([
      ...fresh.map(([name]) => name).filter((name) => this.#names.get(name)?.addresses.size === 0),
      ...pods.fresh
        .filter((template) => this.#pods.podsOf(template).length === 0)
        .map(({ kubernetes }) => podsText(kubernetes!)),
    ])
    for (const [name] of fresh) {
      const note = singleAddressNote(name, [...(this.#names.get(name)?.addresses.keys() ?? [])])
      if (note !== null) this.#parts.log.warn('service_has_one_address', { name, next: note })
    }
    this.#resolved = this.#changes
    const leftOut: string[] = []
    const config = withDiscovered(
      written,
      {
        addressesOf: (name) => [...(this.#names.get(name)?.addresses.keys() ?? [])].sort(),
        podsOf: (template) => this.#pods.podsOf(template),
      },
      (engine) => leftOut.push(engine),
    )
    if (String(leftOut) !== this.#leftOut && leftOut.length > 0)
      this.#parts.log.warn('engines_left_out', {
        engines: leftOut,
        next:
          'These addresses get no requests: another engine of the cluster has the same id or address. Set a ' +
          'separate id and host name for each pattern.',
      })
    this.#leftOut = String(leftOut)
    const discovered = this.#pods.resources(written)
    const others = this.#withoutSelf(written, config)
    return discovered === undefined ? others : { ...others, discovered }
  }

  #warnOfMissing(names: readonly string[]): void {
    for (const name of names) {
      this.#parts.log.warn('no_engines_found', {
        name,
        next: 'It is looked up again; requests for its engines are refused with 503 until it has an address.',
      })
    }
  }

  /** Leaves out addresses of this gateway, which would cause a routing loop. */
  #withoutSelf(written: Config, config: Config): Config {
    const byHand = new Set(
      written.clusters.flatMap(({ id, pools }) => [
        id,
        ...pools.flatMap(({ engines }) => engines.map((engine) => `${id}, ${engine.id}`)),
      ]),
    )
    const own =
      config === written
        ? []
        : enginesAtOwnAddress(config, this.#parts.here?.()).filter((engine) => !byHand.has(engine))
    if (String(own) !== this.#own && own.length > 0)
      this.#parts.log.warn('peer_is_self', {
        engines: own,
        next:
          'These addresses are gateways and get no requests. Gateways need a port or a Service other than that ' +
          'of the engines.',
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

  /** The last result is in use: stops following names that it does not contain. */
  settle(written: Config): void {
    this.#settled = this.#resolved
    this.#pods.settle(written)
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

  /** Calls `changed` when a name's addresses differ from those in use. The returned function stops it. */
  watch(changed: () => void): () => void {
    this.#changed = changed
    const isLate = () => performance.now() >= this.#repeatAt && this.#changes !== this.#settled
    const timer = setInterval(() => {
      void this.#round(changed)
      if (isLate()) {
        this.#repeatAt = performance.now() + REPEAT_MS
        changed()
      }
    }, TICK_MS).unref()
    return () => {
      clearInterval(timer)
      this.close()
    }
  }

  /** Stops following pods. */
  close(): void {
    this.#changed = () => undefined
    this.#pods.close()
  }

  /**
   * Resolves names one after the other within the time limit, because lookups share few threads with connections to
   * names.
   */
  async #round(changed: () => void): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    for (const [name, known] of this.#names) {
      if (known.isLookingUp || known.dueAt > performance.now()) continue
      // A late answer counts too.
      const looked = this.#look(name).then(() => {
        if (this.#changes !== this.#settled) changed()
      })
      await withTimeout(WAIT_MS, looked)
      known.dueAt = performance.now() + known.everyMs
    }
    this.#looking = false
  }

  /** An error leaves the addresses unchanged. Never rejects. */
  async #look(name: string): Promise<void> {
    const { lookup, log } = this.#parts
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
    this.#changes += 1
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
