import type { IncomingHttpHeaders } from 'node:http'
import type { CountedPrompt } from './prefix-cache.ts'

/**
 * How one request fails: 429 without `retry-after`, an error event before the output, a stream that breaks within its
 * output.
 */
export type Fault = 'busy' | 'error_event' | 'broken_stream'

export type Body = Readonly<Record<string, unknown>>

/** A request as an engine received it. */
export interface ServedRequest {
  readonly engine: string
  readonly at: number
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Body
  readonly prompt: CountedPrompt
  /** Cached tokens of the prompt at each engine when it arrived, by name. */
  readonly cachedAt: Readonly<Record<string, number>>
  readonly fault: Fault | null
}
