import type { Log } from '../../ports/log.ts'
import type { RunningBridge } from './bridge.ts'
import type { BridgedEngine } from './engine-listener.ts'
import type { BridgeEngine } from './engines.ts'
import { locateEvents } from './event-endpoints.ts'

/** The set of engines that a bridge listens to, which changes over time. */
export class Members {
  readonly #bridge: Pick<RunningBridge, 'join'>
  readonly #log: Log
  readonly #stop: AbortSignal
  readonly #members = new Map<string, () => void>()

  constructor(bridge: Pick<RunningBridge, 'join'>, log: Log, stop: AbortSignal) {
    this.#bridge = bridge
    this.#log = log
    this.#stop = stop
  }

  /**
   * Removes engines that are gone and discovers the sockets of new ones. Resolves when all new engines have answered,
   * with those that publish events.
   */
  async update(engines: readonly BridgeEngine[]): Promise<readonly BridgedEngine[]> {
    const named = new Map(engines.map((engine) => [JSON.stringify([engine.cluster, engine.id]), engine]))
    for (const [name, leave] of this.#members) {
      if (named.has(name)) continue
      this.#members.delete(name)
      leave()
    }
    const joins = [...named].flatMap(([name, engine]) => (this.#members.has(name) ? [] : [this.#join(name, engine)]))
    return (await Promise.all(joins)).flat()
  }

  #join(name: string, engine: BridgeEngine): Promise<readonly BridgedEngine[]> {
    const gone = new AbortController()
    const located = locateEvents(engine, this.#log, AbortSignal.any([this.#stop, gone.signal]))
    const leave = this.#bridge.join(located)
    this.#members.set(name, () => {
      gone.abort()
      void leave()
    })
    return located
  }
}
