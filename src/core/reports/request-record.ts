import type { Mutable } from '../mutable.ts'
import type { AttemptFailure, Result, Usage } from '../contract/outcome.ts'
import type { ClientSession } from '../contract/client-session.ts'
import type { UsedTokens } from '../limits/used-tokens.ts'
import type { StageTimes } from '../contract/stages.ts'

/** Result of a request: that of its last attempt, or `refused` without one. */
type RequestResult = Result | 'refused'

/**
 * One request, as log, metrics, spans, history and reports read it. The gateway fills it in while the request runs
 * (`OpenRecord`). Plain data: it crosses the Ttft port.
 */
export interface RequestRecord {
  /** The gateway's id. */
  readonly id: string
  /** The client's label, which engines get as their request id; without one the gateway's id. */
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly receivedAt: number
  readonly durationMs: number
  readonly path: string
  /** Base model of the pool that served it, or the requested name. */
  readonly model: string
  /** null: no engine was found. */
  readonly cluster: string | null
  readonly engine: string | null
  /** Prefill engine of a split request. */
  readonly prefillEngine: string | null
  readonly placement: 'whole' | 'split' | 'staged' | null
  readonly policy: string | null
  /** Notes of the decision: `fallback=…`, `failover=…`. */
  readonly notes: readonly string[]
  /** Session that the client names. Absent: none. */
  readonly session?: ClientSession
  readonly stream: boolean
  readonly status: number
  readonly result: RequestResult
  /** Failure of each earlier attempt. */
  readonly failedAttempts: readonly AttemptFailure[]
  readonly stages: StageTimes
  readonly predictedTtftMs: number | null
  readonly usage: Usage | null
  /**
   * Tokens that the request used, also if its engine reported no usage. null: unknown, as of an answer without usage.
   * Absent: the record is of an older version.
   */
  readonly used?: UsedTokens | null
  /** Results of continuing the stream: `continued`, `finished`, or a reason. Absent: it was not truncated. */
  readonly continuations?: readonly string[]
  /**
   * Result of sending the request to a second engine because the first byte was late: `won`, `lost`, `failed`, or why
   * it was not sent. Absent: it was not late.
   */
  readonly hedge?: string
  /** Parallel responses, whose tokens are counted together. Absent: one. */
  readonly sequences?: number | undefined
  /** The request has nothing to encode, so no report of an encoder will come. */
  readonly textOnly: boolean
}

/** Record of a request that may still run. `result` is null until the end. */
export type OpenRecord = Mutable<Omit<RequestRecord, 'result'>> & {
  result: RequestResult | null
}

export const hasEnded = (record: OpenRecord): record is OpenRecord & RequestRecord => record.result !== null

/** Without an engine nothing is used. */
const NOTHING_USED: UsedTokens = { promptTokens: 0, outputTokens: 0 }

/** Creates the record of a new request. `status` is 0 until the end. */
export const openRecord = ({
  id,
  requestId,
  receivedAt,
  path,
  model,
  stream,
}: Pick<RequestRecord, 'id' | 'requestId' | 'receivedAt' | 'path' | 'model' | 'stream'>): OpenRecord => ({
  id,
  requestId,
  receivedAt,
  path,
  model,
  stream,
  durationMs: 0,
  cluster: null,
  engine: null,
  prefillEngine: null,
  placement: null,
  policy: null,
  notes: [],
  status: 0,
  result: null,
  failedAttempts: [],
  stages: {},
  predictedTtftMs: null,
  usage: null,
  used: NOTHING_USED,
  textOnly: true,
})

/** Records of one gateway in order. Repeated batches and those of an older epoch have no effect. */
export interface RecordBatch {
  /** Id of the gateway. */
  readonly source: string
  /** Incarnation of the gateway; grows. */
  readonly epoch: number
  /** Grows by one with every batch of an incarnation to the same shard. */
  readonly seq: number
  readonly records: readonly RequestRecord[]
}
