/** Watches the InferenceObjectives of a namespace: priorities of requests by name. */
import type { KubernetesAccess } from './access.ts'
import { type Change, type KubernetesObject, listWatch, type WatchTimes } from './list-watch.ts'
import type { Log } from '../../../ports/log.ts'
import { WatchFailures } from './watch-failure.ts'

/** https://github.com/llm-d/llm-d-router, `llm-d.ai/v1alpha2` */
interface InferenceObjective extends KubernetesObject {
  readonly spec?: { readonly priority?: unknown; readonly poolRef?: { readonly name?: unknown } }
}

interface ObjectiveWatchParts {
  readonly access: KubernetesAccess
  readonly log: Log
  readonly times?: WatchTimes | undefined
  /** Called when priorities, or the number of malformed objectives, differ from before. */
  changed(): void
}

export class ObjectiveWatch {
  /** Resolves when the objectives have been listed. */
  readonly listed: Promise<void>
  readonly #resolveListed: () => void
  /** Names of objectives whose newest version is not used, with the reason. */
  readonly malformed = new Map<string, string>()
  readonly #parts: ObjectiveWatchParts
  readonly #namespace: string
  readonly #end = new AbortController()
  readonly #objectives = new Map<string, { readonly pool: string; readonly priority: number }>()

  constructor(namespace: string, parts: ObjectiveWatchParts) {
    this.#parts = parts
    this.#namespace = namespace
    const { promise, resolve } = Promise.withResolvers<void>()
    this.listed = promise
    this.#resolveListed = resolve
    void this.#run()
  }

  /** Priority by name, for these pools. */
  priorities(pools: ReadonlySet<string>): Readonly<Record<string, number>> {
    const own = [...this.#objectives].filter(([, { pool }]) => pools.has(pool))
    return Object.fromEntries(own.map(([name, { priority }]) => [name, priority]))
  }

  close(): void {
    this.#end.abort()
    this.#resolveListed()
  }

  async #run(): Promise<void> {
    const { access, log, times } = this.#parts
    const failures = new WatchFailures(log, 'inferenceobjectives.llm-d.ai', this.#namespace)
    const changes = listWatch<InferenceObjective>({
      access,
      path: `/apis/llm-d.ai/v1alpha2/namespaces/${this.#namespace}/inferenceobjectives`,
      selectors: {},
      signal: this.#end.signal,
      failed: (error) => failures.report(error),
      ...(times === undefined ? {} : { times }),
    })
    for await (const change of changes) {
      if (this.#end.signal.aborted) return
      failures.recovered()
      this.#apply(change)
      this.#resolveListed()
      this.#parts.changed()
    }
  }

  #apply(change: Change<InferenceObjective>): void {
    if (change.type !== 'list')
      return change.type === 'set' ? this.#read(change.item) : this.#delete(change.item.metadata.name)
    const present = new Set(change.items.map(({ metadata }) => metadata.name))
    for (const name of [...this.#objectives.keys(), ...this.malformed.keys()])
      if (!present.has(name)) this.#delete(name)
    for (const objective of change.items) this.#read(objective)
  }

  #delete(name: string): void {
    this.#objectives.delete(name)
    this.malformed.delete(name)
  }

  /** A malformed version leaves the last good one in use. */
  #read({ metadata: { name }, spec }: InferenceObjective): void {
    const { priority = 0, poolRef } = spec ?? {}
    const problem =
      typeof poolRef?.name !== 'string'
        ? 'spec.poolRef.name is missing'
        : Number.isInteger(priority)
          ? null
          : 'spec.priority: must be an integer'
    if (problem === null) {
      this.malformed.delete(name)
      this.#objectives.set(name, { pool: String(poolRef!.name), priority: Number(priority) })
      return
    }
    if (this.malformed.get(name) === problem) return
    this.malformed.set(name, problem)
    this.#parts.log.warn('kubernetes_resource_malformed', {
      kind: 'InferenceObjective',
      namespace: this.#namespace,
      name,
      why: problem,
      next: 'Its last good version stays in use. Correct the resource.',
    })
  }
}
