/** What the gateway itself knows of one request, put down when it has ended. Plain data; it crosses the Ttft port. */
import type { AttemptFailure, Result, StageTimes, Usage } from '../cluster/contract.ts'

export interface RequestRecord {
  /** The gateway's own id. */
  readonly id: string
  /** The client's label, which engines know the request by; the id where there is none. */
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly receivedAt: number
  readonly durationMs: number
  readonly path: string
  /** Base model of the pool that served it, or the name that was asked for. */
  readonly model: string
  /** null: no engine was found. */
  readonly cluster: string | null
  readonly engine: string | null
  /** Of a split: who did the prefill. */
  readonly prefillEngine: string | null
  readonly placement: 'whole' | 'split' | 'staged' | null
  readonly policy: string | null
  /** Notes of the choice: `fallback=…`, `failover=…`. */
  readonly notes: readonly string[]
  readonly stream: boolean
  readonly status: number
  readonly result: Result | 'refused'
  /** How each earlier attempt failed. */
  readonly failedAttempts: readonly AttemptFailure[]
  readonly stages: StageTimes
  readonly predictedTtftMs: number | null
  readonly usage: Usage | null
  /** Answers made side by side, whose tokens are counted together. Absent: one. */
  readonly sequences?: number | undefined
  /** Nothing in it to encode: no report of an encoder is to be waited for. */
  readonly textOnly: boolean
}

/** Records of one gateway, in order. A repeat of a `seq` changes nothing, nor does an older epoch. */
export interface RecordBatch {
  /** The gateway. */
  readonly source: string
  /** Its incarnation: grows. */
  readonly epoch: number
  /** Grows by one with every batch of an incarnation that goes to the same place. */
  readonly seq: number
  readonly records: readonly RequestRecord[]
}
