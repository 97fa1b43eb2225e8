/** Headers of a message as handlers read them, and what an answer has to change. */
import type { HeaderSource } from '../../../origin/headers.ts'
import type { HeaderChanges } from '../grpc/processing-response.ts'

/** Headers by name; values of one name are joined, as in web headers. Pseudo headers are apart. */
export class HeaderMap implements HeaderSource {
  readonly #values = new Map<string, string>()
  /** `:method`, `:path` and so on. */
  readonly pseudo = new Map<string, string>()

  constructor(flat: readonly string[]) {
    for (let at = 0; at < flat.length; at += 2) {
      const name = flat[at]!
      const value = flat[at + 1]!
      if (name.startsWith(':')) this.pseudo.set(name, value)
      else {
        const before = this.#values.get(name)
        this.#values.set(name, before === undefined ? value : `${before}, ${value}`)
      }
    }
  }

  get(name: string): string | null {
    return this.#values.get(name) ?? null
  }

  forEach(visit: (value: string, name: string) => void): void {
    this.#values.forEach(visit)
  }

  /** Adds a header that the client has not sent. */
  setDefault(name: string, value: string): void {
    if (!this.#values.has(name)) this.#values.set(name, value)
  }

  /**
   * Changes that make these headers the `wanted` ones. Headers of the framing and those that the proxy needs itself
   * stay.
   */
  changesTo(wanted: readonly string[], stays: (name: string) => boolean): HeaderChanges {
    const names = new Set<string>()
    const set: string[] = []
    for (let at = 0; at < wanted.length; at += 2) {
      const name = wanted[at]!
      const isRepeated = names.has(name)
      names.add(name)
      if (isRepeated || this.#values.get(name) !== wanted[at + 1]) set.push(name, wanted[at + 1]!)
    }
    const remove: string[] = []
    for (const name of this.#values.keys()) if (!names.has(name) && !stays(name)) remove.push(name)
    return { set, remove }
  }
}

/**
 * Headers of the connection, and `x-forwarded-proto`, without which routes of Envoy match no more. Envoy ignores
 * changes of `host` and of its own headers.
 */
const PROXY_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'te',
  'transfer-encoding',
  'upgrade',
  'x-forwarded-proto',
])

/** Request headers that are not removed. */
export const staysInRequest = (name: string): boolean => PROXY_HEADERS.has(name) || name.startsWith('x-envoy-')

/** Response headers that are not removed: the proxy sets some of them itself. */
export const staysInResponse = (name: string): boolean => staysInRequest(name) || name === 'date' || name === 'server'
