/** Service discovery: engines behind names in DNS and in Kubernetes pods take the place of their templates. */
import type { Config } from '../../config.ts'
import { singleAddressNote, withDiscovered } from '../../config/discover.ts'
import { enginesAtOwnAddress } from '../../config/listen-conflicts.ts'
import { podsText } from '../../config/pods-text.ts'
import type { Log } from '../../ports/log.ts'
import { withTimeout } from '../../timeout.ts'
import { DnsDiscovery, LOOKUP_WAIT_MS } from './dns-discovery.ts'
import type { Lookup } from './dns-lookup.ts'
import { kubernetesAccess } from './kubernetes/access.ts'
import { PodDiscovery } from './kubernetes/pod-discovery.ts'

const TICK_MS = 100

/** Time after which a change of pods that was not applied is reported again. */
const REPEAT_MS = 5_000

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
  readonly #names: DnsDiscovery
  readonly #pods: PodDiscovery
  #changed: () => void = () => undefined
  /** Number of changes so far, that of the last result, and that of the result in use. */
  #version = 0
  #resolvedVersion = 0
  #usedVersion = 0
  /** Time of the next call of `changed` if the change of a pod was not applied. */
  #repeatAt = Infinity
  /** Engines of the last warnings, as texts. */
  #leftOut = ''
  #own = ''

  constructor(parts: DiscoveryParts) {
    this.#parts = parts
    const { lookup, log, env = process.env } = parts
    this.#names = new DnsDiscovery({
      lookup,
      log,
      changed: () => void (this.#version += 1),
      lookedUp: () => {
        if (this.#version !== this.#usedVersion) this.#changed()
      },
    })
    this.#pods = new PodDiscovery({
      access: () => kubernetesAccess(env),
      log,
      changed: () => {
        this.#version += 1
        this.#repeatAt = performance.now() + REPEAT_MS
        this.#changed()
      },
    })
  }

  /**
   * Replaces templates by their engines. Waits for the first answers about new names and pods, and follows them from
   * then on.
   */
  async resolve(written: Config): Promise<Config> {
    const pods = this.#pods.start(written)
    const names = this.#names.start(written)
    await withTimeout(LOOKUP_WAIT_MS, Promise.all([pods.listed, names.listed]))
    this.#warnOfMissing([
      ...names.fresh.filter((name) => this.#names.addressesOf(name).length === 0),
      ...pods.fresh
        .filter((template) => this.#pods.podsOf(template).length === 0)
        .map(({ kubernetes }) => podsText(kubernetes!)),
    ])
    for (const name of names.fresh) {
      const note = singleAddressNote(name, this.#names.addressesOf(name))
      if (note !== null) this.#parts.log.warn('service_has_one_address', { name, next: note })
    }
    this.#resolvedVersion = this.#version
    const others = this.#withoutSelf(written, this.#withEngines(written))
    const discovered = this.#pods.resources(written)
    return discovered === undefined ? others : { ...others, discovered }
  }

  /** The last result is in use: stops following what it does not contain. */
  settle(written: Config): void {
    this.#usedVersion = this.#resolvedVersion
    this.#pods.settle(written)
    this.#names.settle(written)
  }

  /** Calls `changed` when the engines differ from those in use. The returned function stops it. */
  watch(changed: () => void): () => void {
    this.#changed = changed
    const timer = setInterval(() => {
      void this.#names.lookUpDue()
      if (performance.now() >= this.#repeatAt && this.#version !== this.#usedVersion) {
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

  #warnOfMissing(names: readonly string[]): void {
    for (const name of names) {
      this.#parts.log.warn('no_engines_found', {
        name,
        next: 'It is looked up again; requests for its engines are refused with 503 until it has an address.',
      })
    }
  }

  #withEngines(written: Config): Config {
    const leftOut: string[] = []
    const config = withDiscovered(
      written,
      { addressesOf: (name) => this.#names.addressesOf(name), podsOf: (template) => this.#pods.podsOf(template) },
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
    return config
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
}
