export interface EngineInstance {
  readonly id: string
  /** Host of the engine's URL, lower-case, without brackets. */
  readonly host: string
  /** Configured instance; null: found by host. */
  readonly instance: string | null
}

/** Instance of a registry. */
export interface ListedInstance {
  readonly id: string
  /** Address that it reports. */
  readonly host: string
}

/** Map of engines to their LMCache instances. */
export class InstanceMap {
  readonly #engines: readonly EngineInstance[]
  #byHost: ReadonlyMap<string, string | null> = new Map()
  #listed: ReadonlySet<string> = new Set()

  constructor(engines: readonly EngineInstance[]) {
    this.#engines = engines
  }

  /** Hosts of engines whose configuration names no instance. */
  get openHosts(): readonly string[] {
    return [...new Set(this.#engines.filter(({ instance }) => instance === null).map(({ host }) => host))]
  }

  /** Engines without a known instance. */
  get unresolved(): readonly string[] {
    return this.#engines.filter((engine) => this.#instanceOf(engine) === null).map(({ id }) => id)
  }

  /** Replaces the instances by host: instances move and leave. */
  adopt(instances: readonly ListedInstance[]): void {
    const byHost = new Map<string, string | null>()
    for (const { id, host } of instances) {
      const name = host.toLowerCase()
      const other = byHost.get(name)
      // With two instances on one host, the engine's one is unknown.
      byHost.set(name, other === undefined || other === id ? id : null)
    }
    this.#byHost = byHost
    this.#listed = new Set(instances.map(({ id }) => id))
  }

  /** Whether the instance was reported. */
  knows(instance: string): boolean {
    return this.#listed.has(instance) || this.#engines.some((engine) => engine.instance === instance)
  }

  /** Engines with their instance; those without one are omitted. */
  pairs(): readonly { readonly engine: string; readonly instance: string }[] {
    return this.#engines.flatMap((engine) => {
      const instance = this.#instanceOf(engine)
      return instance === null ? [] : [{ engine: engine.id, instance }]
    })
  }

  #instanceOf({ host, instance }: EngineInstance): string | null {
    return instance ?? this.#byHost.get(host) ?? null
  }
}

/** Host of a base URL, in the form that instances report. */
export function hostOf(url: string): string {
  const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(url)
  return (match?.[1] ?? '').replace(/^\[|\]$/g, '').toLowerCase()
}
