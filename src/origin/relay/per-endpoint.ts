import type { EngineTarget } from '../../ports/engine-target.ts'
import { withoutQuery } from '../../url.ts'

/** Values that are learned per engine and endpoint. They end with the engines of a configuration. */
export class PerEndpoint<Value> {
  readonly #engines = new WeakMap<EngineTarget, Map<string, Value>>()
  readonly #create: () => Value

  /** @param create makes the value of an endpoint before anything is learned */
  constructor(create: () => Value) {
    this.#create = create
  }

  /** undefined: nothing was learned. */
  known(engine: EngineTarget, path: string): Value | undefined {
    return this.#engines.get(engine)?.get(withoutQuery(path))
  }

  /** The value to learn in. */
  of(engine: EngineTarget, path: string): Value {
    let endpoints = this.#engines.get(engine)
    if (endpoints === undefined) this.#engines.set(engine, (endpoints = new Map()))
    const endpoint = withoutQuery(path)
    let value = endpoints.get(endpoint)
    if (value === undefined) endpoints.set(endpoint, (value = this.#create()))
    return value
  }
}
