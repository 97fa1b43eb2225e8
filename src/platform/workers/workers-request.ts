import type { BodyAllocation } from '../../body-memory.ts'
import type { HeaderSource } from '../../origin/headers.ts'
import { collectBody } from './request-body.ts'

/** Headers, copied once: each of some 17 that a request reads would be a call of workerd. */
class CopiedHeaders implements HeaderSource {
  readonly #values = new Map<string, string>()

  constructor(headers: Headers) {
    headers.forEach((value, name) => this.#values.set(name, value))
  }

  get(name: string): string | null {
    return this.#values.get(name) ?? null
  }

  forEach(visit: (value: string, name: string) => void): void {
    this.#values.forEach(visit)
  }
}

/** A request as handlers read it. */
export class WorkersRequest {
  readonly method: string
  readonly url: string
  readonly headers: HeaderSource
  readonly #request: Request

  constructor(request: Request) {
    this.method = request.method
    this.url = request.url
    this.headers = new CopiedHeaders(request.headers)
    this.#request = request
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  collect(limitBytes: number, memory?: BodyAllocation | null): Promise<Uint8Array | null> {
    return collectBody(this.#request, limitBytes, memory)
  }

  /** The memory of workerd is not freed at once. */
  giveBack(): void {}
}
