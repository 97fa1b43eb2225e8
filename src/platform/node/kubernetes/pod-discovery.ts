/** Discovery of engines in Kubernetes pods: one watch for each selection of a configuration, and of objectives. */
import { podPorts } from '../../../config/pod-ports.ts'
import type { Config, DiscoveredResources, EngineConfig } from '../../../config.ts'
import { type DiscoveredPod, podTemplatesIn } from '../../../config/discover.ts'
import type { Log } from '../../../ports/log.ts'
import type { KubernetesAccess } from './access.ts'
import type { WatchTimes } from './list-watch.ts'
import { InferencePoolSelection } from './inference-pool-selection.ts'
import { ObjectiveWatch } from './objective-watch.ts'
import { PodSelection, type PodSelectionParts } from './pod-selection.ts'

interface PodDiscoveryParts {
  /** Throws if there is no access to an API server. */
  access(): KubernetesAccess
  readonly log: Log
  readonly times?: WatchTimes | undefined
  /** Called when the pods of any selection have changed. */
  changed(): void
}

export class PodDiscovery {
  readonly #parts: PodDiscoveryParts
  readonly #selections = new Map<string, PodSelection | InferencePoolSelection>()
  /** By namespace. */
  readonly #objectives = new Map<string, ObjectiveWatch>()
  /** Number of watches that have not listed their resources yet. */
  #unlisted = 0
  /** The result of `resources` has said so. */
  #isUnlistedReported = false
  #access: KubernetesAccess | null = null

  constructor(parts: PodDiscoveryParts) {
    this.#parts = parts
  }

  /**
   * Follows the selections of a configuration. Returns a template of each new one; `listed` resolves when they have
   * been listed. Throws if there is no access to an API server.
   */
  start(written: Config): { readonly fresh: readonly EngineConfig[]; readonly listed: Promise<unknown> } {
    const fresh: EngineConfig[] = []
    const listed: Promise<void>[] = []
    for (const [template, intervalMs] of podTemplatesIn(written)) {
      const key = keyOf(template)
      let selection = this.#selections.get(key)
      if (selection === undefined) {
        selection = newSelection(template, { ...this.#parts, access: (this.#access ??= this.#parts.access()) })
        this.#selections.set(key, selection)
        fresh.push(template)
        listed.push(this.#listed(selection))
      }
      selection.intervalMs = Math.min(selection.intervalMs, intervalMs)
    }
    for (const namespace of this.#objectiveNamespaces(written)) {
      if (this.#objectives.has(namespace)) continue
      const watch = new ObjectiveWatch(namespace, { ...this.#parts, access: this.#access! })
      this.#objectives.set(namespace, watch)
      listed.push(this.#listed(watch))
    }
    return { fresh, listed: Promise.all(listed) }
  }

  podsOf(template: EngineConfig): readonly DiscoveredPod[] {
    return this.#selections.get(keyOf(template))?.found ?? []
  }

  /** Counts a watch until it has listed its resources. */
  async #listed({ listed }: { readonly listed: Promise<void> }): Promise<void> {
    this.#unlisted += 1
    await listed
    this.#unlisted -= 1
    if (this.#unlisted === 0 && this.#isUnlistedReported) this.#parts.changed()
  }

  /** What the resources contain besides pods. undefined: no pool is configured, and all pods are listed. */
  resources(written: Config): DiscoveredResources | undefined {
    const templates = poolTemplatesIn(written)
    this.#isUnlistedReported = this.#unlisted > 0
    if (templates.length === 0 && !this.#isUnlistedReported) return undefined
    const objectives: Record<string, number> = {}
    let malformed = 0
    for (const { selection } of templates.map((template) => ({ selection: this.#selections.get(keyOf(template)) })))
      if (selection instanceof InferencePoolSelection && selection.problem !== null) malformed += 1
    for (const [namespace, watch] of this.#objectives) {
      const own = templates.filter(({ kubernetes }) => this.#namespaceOf(kubernetes!) === namespace)
      Object.assign(objectives, watch.priorities(new Set(own.map(({ kubernetes }) => kubernetes!.pool!))))
      malformed += watch.malformed.size
    }
    return { objectives, malformed, ...(this.#isUnlistedReported ? { isListed: false } : {}) }
  }

  #namespaceOf({ namespace }: NonNullable<EngineConfig['kubernetes']>): string {
    return namespace ?? this.#access!.namespace
  }

  #objectiveNamespaces(written: Config): ReadonlySet<string> {
    if (written.epp?.readObjectives !== true) return new Set()
    return new Set(poolTemplatesIn(written).map(({ kubernetes }) => this.#namespaceOf(kubernetes!)))
  }

  /** Stops following selections that the configuration does not contain. */
  settle(written: Config): void {
    const wanted = new Set(podTemplatesIn(written).map(([template]) => keyOf(template)))
    for (const [key, selection] of this.#selections) {
      if (wanted.has(key)) continue
      selection.close()
      this.#selections.delete(key)
    }
    const namespaces = this.#objectiveNamespaces(written)
    for (const [namespace, watch] of this.#objectives) {
      if (namespaces.has(namespace)) continue
      watch.close()
      this.#objectives.delete(namespace)
    }
  }

  close(): void {
    for (const watch of [...this.#selections.values(), ...this.#objectives.values()]) watch.close()
    this.#selections.clear()
    this.#objectives.clear()
  }
}

function newSelection(template: EngineConfig, parts: PodSelectionParts): PodSelection | InferencePoolSelection {
  const { namespace, selector } = template.kubernetes!
  if (selector === null) return new InferencePoolSelection(template, parts)
  const ports = podPorts(template.kubernetes!)
  return new PodSelection(template, { namespace: namespace ?? parts.access.namespace, selector, ports }, parts)
}

const poolTemplatesIn = (written: Config): readonly EngineConfig[] =>
  podTemplatesIn(written)
    .map(([template]) => template)
    .filter(({ kubernetes }) => kubernetes!.pool !== null)

/** Templates that differ only in settings of the engines, such as weight and role, share a watch. */
function keyOf({ url, key, headers, kubernetes }: EngineConfig): string {
  const { namespace, selector, pool, port, ports, match } = kubernetes!
  return JSON.stringify([namespace, selector, pool, port, ports, match, url, key, headers])
}
