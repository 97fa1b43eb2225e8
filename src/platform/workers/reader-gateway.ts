import { Failure } from '../../failure.ts'
import type { ConfigSource } from './config-source.ts'
import { EdgeReader } from './edge-reader.ts'
import { type GatewayEnv, GatewayBuilder } from './gateway-builder.ts'

/** The gateway that takes the fleet's views for the object that isolates share. It serves no requests. */
export class ReaderGateway {
  readonly #builder: GatewayBuilder<{ readonly views: EdgeReader; readonly client: null }>

  constructor(source: ConfigSource) {
    this.#builder = new GatewayBuilder(source, (parts) => ({ views: new EdgeReader(parts), client: null }))
  }

  /** View of the fleet for the live feed. null: there is no usable configuration. */
  async view(env: GatewayEnv): Promise<unknown> {
    const built = await this.#builder.current(env, () => undefined)
    if (built instanceof Failure) return null
    await built.edge?.views.readStatus()
    return built.gateway.view()
  }
}
