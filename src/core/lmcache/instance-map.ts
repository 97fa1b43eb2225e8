/** Which LMCache instance an engine reads from. */

export interface EnginePlace {
  readonly id: string
  /** Host of the engine's URL, lower-case, without brackets. */
  readonly host: string
  /** As configured; null: found by host. */
  readonly instance: string | null
}

/** An instance as a registry lists it. */
export interface ListedInstance {
  readonly id: string
  /** Where it says it can be reached. */
  readonly host: string
}

export class InstanceMap {
  readonly #engines: readonly EnginePlace[]
  #byHost: ReadonlyMap<string, string | null> = new Map()
  #listed: ReadonlySet<string> = new Set()

  constructor(engines: readonly EnginePlace[]) {
    this.#engines = engines
  }

  /** Hosts of engines whose configuration names no instance. */
  get openHosts(): readonly string[] {
    return [...new Set(this.#engines.filter(({ instance }) => instance === null).map(({ host }) => host))]
  }

  /** Engines whose instance is not known, now. */
  get unresolved(): readonly string[] {
    return this.#engines.filter((engine) => this.#instanceOf(engine) === null).map(({ id }) => id)
  }

  /** Replaces what was known of hosts: instances move and leave. */
  adopt(instances: readonly ListedInstance[]): void {
    const byHost = new Map<string, string | null>()
    for (const { id, host } of instances) {
      const name = host.toLowerCase()
      const other = byHost.get(name)
      // Two on one host: which of them an engine reads from cannot be told.
      byHost.set(name, other === undefined || other === id ? id : null)
    }
    this.#byHost = byHost
    this.#listed = new Set(instances.map(({ id }) => id))
  }

  /** Is it an instance somebody told us of? */
  knows(instance: string): boolean {
    return this.#listed.has(instance) || this.#engines.some((engine) => engine.instance === instance)
  }

  /** Every engine with its instance; those without one are left out. */
  pairs(): readonly { readonly engine: string; readonly instance: string }[] {
    return this.#engines.flatMap((engine) => {
      const instance = this.#instanceOf(engine)
      return instance === null ? [] : [{ engine: engine.id, instance }]
    })
  }

  #instanceOf({ host, instance }: EnginePlace): string | null {
    return instance ?? this.#byHost.get(host) ?? null
  }
}

/** The host of a base URL, comparable with what instances say of themselves. */
export function hostOf(url: string): string {
  const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(url)
  return (match?.[1] ?? '').replace(/^\[|\]$/g, '').toLowerCase()
}
