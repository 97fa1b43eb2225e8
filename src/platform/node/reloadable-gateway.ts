/** Reload of the configuration of a running process. */
import type { Gateway } from '../../gateway.ts'

/** A sequence of gateways behind the same listeners. A request stays with the gateway that accepted it. */
export class ReloadableGateway {
  #current: Gateway
  #draining = false

  constructor(first: Gateway) {
    this.#current = first
  }

  replaceBy(next: Gateway): void {
    const before = this.#current
    this.#current = next
    before.supersede(next)
    if (this.#draining) next.drain()
  }

  get state(): Gateway['state'] {
    return this.#current.state
  }

  fetch(...args: Parameters<Gateway['fetch']>): Promise<Response> {
    return this.#current.fetch(...args)
  }

  /** Only with an endpoint picker in the configuration, which a reload does not change. */
  place(...args: Parameters<Gateway['fetch']>): Promise<Response> {
    return this.#current.place!(...args)
  }

  probe(): Promise<void> {
    return this.#current.probe()
  }

  answer(...args: Parameters<Gateway['answer']>): Promise<unknown> {
    return this.#current.answer(...args)
  }

  metricsText(...args: Parameters<Gateway['metricsText']>): Promise<string> {
    return this.#current.metricsText(...args)
  }

  configRefused(at: number | null): void {
    this.#current.configRefused(at)
  }

  drain(): void {
    this.#draining = true
    this.#current.drain()
  }
}
