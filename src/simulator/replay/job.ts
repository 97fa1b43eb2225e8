import type { SequenceSpec } from '../sequence.ts'
import type { TraceRequest } from './trace.ts'

/** One request on its way through a replay. Times are the replay's, in milliseconds. */
export class Job implements SequenceSpec {
  readonly index: number
  readonly request: TraceRequest
  readonly promptTokens: number
  readonly outputTokens: number
  readonly blocks: Uint32Array
  /** The leg that fetches its prompt from another engine. */
  remote = false
  /** The leg whose blocks another engine is to read. */
  hold = false
  /** When the client sent it. */
  sentAt = 0
  /** -1: has not come. */
  firstTokenAt = -1
  endedAt = -1
  engine = -1
  cachedTokens = 0
  preemptions = 0
  longestGapMs = 0
  /** What the policy expected, when it says. */
  predictedTtftMs: number | null = null

  constructor(index: number, request: TraceRequest, outputTokens = request.outputTokens) {
    this.index = index
    this.request = request
    this.promptTokens = request.promptTokens
    this.outputTokens = outputTokens
    this.blocks = request.blocks
  }
}
