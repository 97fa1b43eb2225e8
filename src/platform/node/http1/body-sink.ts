/** Receiver of a response body in the tick of its read, without a queue. */
import type { BodyFraming } from './body-framing.ts'

/** Receives the bytes once the client's head is written. */
export interface BodySink {
  /** Bytes as read, framing included. `last`: the message ends with them. */
  take(bytes: Buffer, framing: BodyFraming, last: boolean): void
  /** The bytes last passed are still in use. */
  readonly holds: boolean
  /** Handles a body that failed before its end. */
  broken(reason: unknown): void
  /**
   * Handles the timeout set by `wakeIn`.
   * @param lateMs time for which this process did not run meanwhile
   */
  due(lateMs: number): void
}

export interface BodyRead {
  readonly bytes: Buffer
  readonly last: boolean
  /** The read starts with a chunk: no part of that chunk was withheld. */
  readonly whole: boolean
}

/** Request to an engine whose body a sink relays. */
export interface RelayedRequest {
  /** null: the response has not begun. */
  readonly framing: BodyFraming | null
  /** Milliseconds left for the first byte. */
  readonly firstByteInMs: number
  /** Returns all bytes that wait. Later bytes go to the sink. */
  passTo(sink: BodySink): PendingBody
  /** Calls the sink's `due` after `ms`. Replaces an earlier timeout. */
  wakeIn(ms: number): void
  pause(): void
  resume(): void
  stop(reason: unknown): void
  /** Releases timeout and signal: the body has ended or is not wanted. */
  release(): void
}

/** Bytes that a sink takes over. */
export interface PendingBody {
  /** Payload queued so far. */
  readonly pieces: readonly Buffer[]
  /** The current read, of which no byte is consumed; null: there is none. */
  readonly read: BodyRead | null
  readonly ended: boolean
  readonly failure: unknown
}
