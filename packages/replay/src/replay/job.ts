import type { SequenceSpec } from '../../../simulator/src/sequence.ts'
import type { TraceRequest } from './trace.ts'

/** One request in a replay. Times are virtual, in milliseconds. */
export class Job implements SequenceSpec {
  readonly index: number
  readonly request: TraceRequest
  readonly promptTokens: number
  readonly outputTokens: number
  readonly blocks: Uint32Array
  /** The leg that fetches its prompt from another engine. */
  remote = false
  /** The leg whose blocks another engine reads. */
  hold = false
  /** When the client sent it. */
  sentAt = 0
  /** -1: not yet. */
  firstTokenAt = -1
  endedAt = -1
  engine = -1
  cachedTokens = 0
  preemptions = 0
  longestGapMs = 0
  /** TTFT predicted by the policy, if it predicts. */
  predictedTtftMs: number | null = null

  constructor(index: number, request: TraceRequest, outputTokens = request.outputTokens) {
    this.index = index
    this.request = request
    this.promptTokens = request.promptTokens
    this.outputTokens = outputTokens
    this.blocks = request.blocks
  }
}
