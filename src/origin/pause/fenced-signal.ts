/** Abort signal of one call to an engine: the client leaves, or the engine's answer may not go on. */
import { AbortListeners } from '../../abort-listeners.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import { OriginError } from '../../ports/origin.ts'

export class FencedSignal extends AbortListeners implements AbortSignalLike {
  readonly #client: AbortSignalLike
  #fence: Error | null = null

  constructor(client: AbortSignalLike) {
    super()
    this.#client = client
  }

  fence(reason: Error = new OriginError('paused', 'the engine was paused')): void {
    if (this.#fence !== null) return
    this.#fence = reason
    this.callListeners()
  }

  get aborted(): boolean {
    return this.#fence !== null || this.#client.aborted
  }

  get reason(): unknown {
    return this.#fence ?? this.#client.reason
  }

  override addEventListener(type: 'abort', listener: () => void): void {
    super.addEventListener(type, listener)
    this.#client.addEventListener(type, listener)
  }

  override removeEventListener(type: 'abort', listener: () => void): void {
    super.removeEventListener(type, listener)
    this.#client.removeEventListener(type, listener)
  }
}
