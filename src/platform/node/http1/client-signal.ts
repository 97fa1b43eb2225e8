import { AbortListeners } from '../../../abort-listeners.ts'
import type { AbortSignalLike } from '../../../ports/abort-signal.ts'

/** Aborted when a client disconnects. Each request has one. */
export class ClientSignal extends AbortListeners implements AbortSignalLike {
  aborted = false
  reason: unknown = undefined

  /** Has effect once. */
  abort(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    this.callListeners()
  }
}
