import type { AttemptFailure, Usage } from '../core/contract/outcome.ts'
import type { ReportedUsage } from '../protocols/reported-usage.ts'
import type { Protocol } from '../protocols/protocol.ts'
import type { Timers } from './timers.ts'

/** What a relay uses of the scope of its request. */
export interface RelayScope {
  /** Keeps work alive after the response: `ctx.waitUntil` on Workers, a drained set on Node. */
  background(work: Promise<unknown>): void
  /** Known to the platform's Origin alone, e.g. Node's request and response objects. */
  readonly client: unknown
  /** true: the gateway is closing connections, so an abort is not the client's. Absent: never. */
  readonly isClosing?: () => boolean
  /** Timers of this request, if a clock may not be shared. Absent: the timers of the ports. */
  readonly timers?: Timers
}

/** Options and callbacks of a relay. */
export interface RelayOptions {
  readonly scope: RelayScope
  /** Wire protocol of the body. */
  readonly protocol: Protocol
  /** The body has a `content-encoding`, so nothing in it can be read or changed. Absent: false. */
  readonly isEncoded?: boolean
  readonly status: number
  /** Flat name, value: headers for the client, without those of the framing. */
  readonly headers: readonly string[]
  /** Read the body on the way (first event, number of events, usage). false: relay it natively. */
  readonly observe: boolean
  /** The gateway requested the usage record: remove it from the stream. Only an observed stream has it. */
  readonly hideUsage: boolean
  /** Interval of SSE comments while the engine sends nothing; 0: none. */
  readonly heartbeatMs: number
  /** Idle timeout after the first byte. */
  readonly idleMs: number
  /**
   * Time that the client may read nothing; absent, 0: no limit. Relays to a socket use the limit of the socket.
   */
  readonly writeMs?: number | undefined
  /** Time after which a native relay is settled as `lapsed`, although the stream goes on; absent: never. */
  readonly nativeMs?: number
  /**
   * Called once with the `resp_…` id of a stored response, before the client gets the id: the client may use it on
   * another thread at once. Absent: ids are not needed.
   */
  readonly onResponseId?: ((id: string) => void) | undefined
  /** Number of data events at which `onEvents` is called first; 0: no calls. */
  readonly firstEvents: number
  /**
   * Returns the number of events at which it is called again.
   * @param tokens output tokens by the last usage in the stream; null: none came
   */
  onEvents(events: number, tokens: number | null): number
  /** First content of the body. May be called again for an answer that had begun before `pass`. */
  onFirstByte(): void
  /** A stream that is read and ends without the end of its protocol is truncated. Absent: any end is proper. */
  readonly checksEnd?: boolean
  /**
   * The SSE error event at the end of a truncated stream. The connection is then closed without a clean end. Absent: it
   * ends at once, without an event.
   * @param sequence number of the event; null: the protocol has none
   */
  truncationEvent?(failure: AttemptFailure, sequence: number | null): Uint8Array
  /** Called exactly once, on every path. */
  settled(end: RelayResult): void
}

export interface RelayResult {
  /** `engine_error`: the engine reported an error or gave up, and the client has got all that it sent. */
  readonly end: 'complete' | 'client_gone' | 'engine_truncated' | 'engine_error' | 'lapsed'
  readonly failure: AttemptFailure | null
  /** `data:` events that passed; 0 when not observed. */
  readonly events: number
  readonly usage: Usage | null
  /** Token counts so far, whole or in part. Absent, null: none. */
  readonly reported?: ReportedUsage | null
  /** Events with output that passed. Absent: 0. */
  readonly outputs?: number
  readonly bytes: number
}
