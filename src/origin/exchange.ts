import type { Admission, StageTimes } from '../core/contract/contract.ts'
import type { OpenRecord, RequestRecord } from '../core/reports/combine.ts'
import type { ClusterConfig, PoolSettings } from '../config.ts'
import type { EngineTarget, AbortSignalLike, RequestScope } from '../ports.ts'

/** One pool that may serve a request, with what the edge needs to reach its engines. */
export interface PoolRoute {
  readonly cluster: ClusterConfig
  readonly pool: PoolSettings
  /** Engine id → where it is. */
  readonly targets: ReadonlyMap<string, EngineTarget>
}

/** Changes to a body for one leg of a split request, on top of the door's own. */
export interface BodyEdit {
  /** Field → value as JSON text: takes the place of the client's, or goes in front. */
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
}

/** A request that passed the door: everything `forward` needs, nothing of HTTP frameworks. */
export interface Exchange {
  /** The gateway's own id: bookings, decisions and reports use it. */
  readonly id: string
  /** The client's label (or ours): echoed, logged and sent on, never a key. */
  readonly requestId: string
  /** `ports.now()` when the request came in. */
  readonly receivedAt: number
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query for the engine. */
  readonly path: string
  /** For the engine: flat, lower-case, proxy rules applied, without credentials. */
  readonly headers: readonly string[]
  /** For another gateway besides, in the same form. Absent: nothing. */
  readonly forGateway?: readonly string[]
  /** The body for this pool: the original bytes with the closed list of edits applied; null without a body. */
  body(route: PoolRoute, edit?: BodyEdit): readonly Uint8Array[] | null
  /** The same body, parsed; absent: there is none that could be split. */
  readonly json?: Readonly<Record<string, unknown>>
  /** The client asked for a stream. */
  readonly stream: boolean
  /** Is what passes to be read? The door decided, by need (stripping, non-streaming) or by `observeShare`. */
  readonly observe: boolean
  /** We asked for the usage record, the client did not. */
  readonly hideUsage: boolean
  /** All of the admission that does not depend on the attempt. */
  admission(route: PoolRoute): Omit<Admission, 'attempt' | 'avoid' | 'configVersion'>
  /**
   * Finds out what caches outside the engines hold, where the choice reads it, and puts it into the pool's admission;
   * what that took. Takes no longer than the pool's budget, never rejects, and is done once however often it is asked.
   * null: nobody is to be asked.
   */
  hints?(route: PoolRoute): Promise<StageTimes> | null
  /** SSE comments to the client while its engine is silent, each this long after the last byte; 0: none. */
  readonly heartbeatMs: number
  /** Longest time its client may read nothing; absent, 0: no limit. */
  readonly writeMs?: number
  /** Pools that serve the model, in the order they are to be tried. */
  readonly routes: readonly PoolRoute[]
  /** Version of the config these routes came from. */
  readonly configVersion: number
  /** Bound to one engine (stateful calls): only this one will do. null: any. */
  readonly pinned: { readonly cluster: string; readonly engine: string } | null
  /** Stages the door measured, ms. */
  readonly stages: StageTimes
  /** For the client, on top of the rest, flat: what lets a page of another origin read the answer. Absent: nothing. */
  readonly cors?: readonly string[] | null
  readonly scope: RequestScope
  /** Aborted when the client is gone (as far as the runtime can see). */
  readonly signal: AbortSignalLike
  /**
   * An answer is on its way to the client: what only another attempt would need may be let go of. `written`: nor does
   * anybody still read the bytes of a body that was given out.
   */
  begun?(written: boolean): void
  /** Called with the engine that holds the response `id`, before the client can read the id. For stateful endpoints. */
  onResponseId?(holder: { readonly cluster: string; readonly engine: string }, id: string): void
  /** The known stages go to the client as a last SSE comment, where its stream is read on the way. */
  readonly lastComment?: boolean
  /** Filled in while the request runs: placement, attempts, stages, end. */
  readonly record: OpenRecord
  /** Called exactly once, when `record` is complete: after the last byte, or before `forward` throws. */
  onEnd?(): void
}

/** Completes the record of an exchange and reports the end. */
export function endExchange(
  exchange: Exchange,
  end: Pick<RequestRecord, 'status' | 'result' | 'failedAttempts' | 'stages' | 'usage'>,
  now: number,
): void {
  Object.assign(exchange.record, end)
  exchange.record.durationMs = Math.max(0, now - exchange.receivedAt)
  exchange.onEnd?.()
}
