/** A request as the simulated engine sees it, whatever carried it. */
export interface Incoming {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
}

/** Where a streamed body goes. Calls after `end` or `fail` have no effect. */
export interface Sink {
  write(text: string): void
  end(): void
  /** Breaks the connection in the middle. */
  fail(): void
}

/** Starts to write; the answer tells the writer that nobody reads any more. */
export type BodyStream = (sink: Sink) => () => void

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | BodyStream
}

/** Instead of an answer: the connection breaks, or carries what is not HTTP. */
export interface BrokenConnection {
  readonly broken: 'reset' | 'garbage'
}

export const json = (status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(value),
})
