/** Discovery of engines in Kubernetes pods: one watch for each selection of a configuration. */
import type { Config, EngineConfig } from '../../../config.ts'
import { type DiscoveredPod, podTemplatesIn } from '../../../config/discover.ts'
import type { Log } from '../../../ports/log.ts'
import type { KubernetesAccess } from './access.ts'
import type { WatchTimes } from './list-watch.ts'
import { PodSelection } from './pod-selection.ts'

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
  readonly #selections = new Map<string, PodSelection>()
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
        this.#access ??= this.#parts.access()
        selection = new PodSelection(template, { ...this.#parts, access: this.#access })
        this.#selections.set(key, selection)
        fresh.push(template)
        listed.push(selection.listed)
      }
      selection.intervalMs = Math.min(selection.intervalMs, intervalMs)
    }
    return { fresh, listed: Promise.all(listed) }
  }

  podsOf(template: EngineConfig): readonly DiscoveredPod[] {
    return this.#selections.get(keyOf(template))?.found ?? []
  }

  /** Stops following selections that the configuration does not contain. */
  settle(written: Config): void {
    const wanted = new Set(podTemplatesIn(written).map(([template]) => keyOf(template)))
    for (const [key, selection] of this.#selections) {
      if (wanted.has(key)) continue
      selection.close()
      this.#selections.delete(key)
    }
  }

  close(): void {
    for (const selection of this.#selections.values()) selection.close()
    this.#selections.clear()
  }
}

/** Templates that differ only in settings of the engines, such as weight and role, share a watch. */
function keyOf({ url, key, headers, kubernetes }: EngineConfig): string {
  const { namespace, selector, port, match } = kubernetes!
  return JSON.stringify([namespace, selector, port, match, url, key, headers])
}
