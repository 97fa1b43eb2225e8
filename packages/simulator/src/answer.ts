/** A request as the simulated engine receives it, independent of the transport. */
export interface Incoming {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

/** Receives a streamed body. Calls after `end` or `fail` have no effect. */
export interface Sink {
  write(text: string): void
  end(): void
  /** Resets the connection in the middle of the body. */
  fail(): void
}

/** Starts to write a body. The returned function stops the writer when the reader is gone. */
export type BodyStream = (sink: Sink) => () => void

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | BodyStream
}

/** Instead of an answer: the connection is reset, or carries bytes that are not HTTP. */
export interface BrokenConnection {
  readonly broken: 'reset' | 'garbage'
}

export const json = (status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(value),
})
