/** Interfaces to everything outside the product. The entry points choose the implementations. */
import type { LimitAnswer, Reservation, RunningRequest, Settlement } from './core/limits/key-limiter.ts'
import type {
  Admission,
  CacheHint,
  ClusterDigest,
  ClusterSummary,
  Decision,
  EngineSignal,
  Outcome,
  Placement,
  PoolConfig,
  Refusal,
  Resume,
  StageTimes,
  AttemptFailure,
  Usage,
} from './core/contract/contract.ts'
import type { BookingEvent } from './core/contract/legs.ts'
import type { RegionDigest } from './core/contract/region-digest.ts'
import type { KvEventDelta, KvEventDeltaState } from './core/kv-events/delta-log.ts'
import type { PoolEvent } from './core/pool/pool-events.ts'
import type { RegistryAnswer, RegistryCall } from './core/lmcache/registry-call.ts'
import type { ReportPartial } from './core/reports/partial.ts'
import type { RecordBatch } from './core/reports/combine.ts'
import type { Added } from './core/reports/report-store.ts'
import type { CountedGroup, RollupGroup } from './core/reports/rollups.ts'
import type { FoundReport } from './core/reports/ttft-state.ts'

/**
 * The single sequencer of one cluster's pool: a Durable Object on Workers, the same class in process on Node.
 * `admit` ranks and books in one synchronous step, so that concurrent requests see each other.
 */
export interface Cluster {
  /** Adopts only newer versions; removed engines drain. */
  configure(version: number, pool: PoolConfig): Promise<void>
  /** `scope` keeps messages of the lease alive. Absent: the caller awaits them. */
  admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<Admitted>
  /**
   * Limit of an `admit` that starts now, ms. Beyond it, the caller chooses by the last digest and books afterwards.
   * null, or absent: none but that of unreachable pool state.
   */
  admitLimitMs?(): number | null
  /** `admit` without a promise, for pool state in this process. null: call `admit`. Absent: always call `admit`. */
  admitNow?(admission: Admission): Admitted | null
  /**
   * Admits a request that the pool refused with `mayWait` as soon as there is room. Safe to repeat: a request is
   * admitted at most once. Absent: the pool has no queue.
   * @param waitedMs time that it has waited before, in a call that failed
   */
  wait?(admission: Admission, waitedMs: number, scope?: Pick<RequestScope, 'background'>): Promise<Admitted>
  /** Ends the wait of a request by its `bookingKey`, and the booking that it may have got. */
  leave?(key: string): Promise<void>
  /** Books again, without ranking, after an eviction of the object. Harmless for a booking that the object has. */
  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease>
  /**
   * Applies an event of another gateway, for pool state in this process; `book` is `resume`. false: the pool state does
   * not have the booking. Absent: not supported.
   */
  applyNow?(event: BookingEvent | readonly [said: 'book', booking: Resume]): boolean
  /** Ranks without booking. */
  rank(admission: Admission): Promise<Ranked>
  /** Applies signals. Returns the probed engines that also serve other sources. */
  observe(signals: readonly EngineSignal[]): Promise<readonly string[]>
  /** Passes a call of an LMCache server to the pool's registry. Absent: the pool has no registry. */
  registry?(call: RegistryCall): Promise<RegistryAnswer>
  /** Applies KV events of engines; one result each. Absent: KV events are not supported. */
  feed?(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]>
  digest(): Promise<ClusterDigest>
  /** Digest over all isolates of a Worker, for operators. Absent: `digest` has all. */
  fleetDigest?(): Promise<ClusterDigest>
  /** Digest for gateways that choose among regions. */
  regionDigest(): Promise<RegionDigest>
  explain(id: string): Promise<Decision | null>
  /** Digest for the dashboard, with the last decisions, newest first. Absent: use `digest`. */
  summary?(decisions: number, historySince?: number): Promise<ClusterSummary>
}

export type Admitted =
  | {
      readonly lease: Lease
      readonly placement: Placement
      readonly policy: string
      readonly predictedTtftMs: number | null
      /** Events to log. Absent: none. */
      readonly events?: readonly PoolEvent[]
    }
  | { readonly refusal: Refusal }

export type Ranked = { readonly decision: Decision } | { readonly refusal: Refusal }

/** One booking. Every path ends in `release`; a lease without `renew` expires. */
export interface Lease {
  /**
   * Calls take effect in order and need no await: the pool state is in this process, or the lease queues its messages.
   */
  readonly inProcess?: boolean
  /** Ends a leg before the final one: its engine is free. Absent: no split requests. */
  legDone?(part: 'encode' | 'prefill', stages: StageTimes, usage?: Usage | null): Promise<void>
  /** Ends the prefill: its work leaves the queue. */
  firstToken(stages: StageTimes): Promise<void>
  /** Reports the output so far, in blocks. Observed requests only, at block boundaries. */
  progress(outputBlocks: number): Promise<void>
  /** Extends the lease. Rejects if the object does not have the booking: `resume` it. */
  renew(): Promise<void>
  /** Ends the booking. Has effect once. */
  release(outcome: Outcome): Promise<void>
}

/** Address of an engine and headers for it. Never sent to clients. */
export interface EngineTarget {
  readonly id: string
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Headers of every request: the engine's key, access tokens. Flat name, value; lower-case names. */
  readonly headers: readonly string[]
  /** Workers: name of a binding to fetch through, for private networks. */
  readonly binding: string | null
  /** The target is another Firstlight gateway. */
  readonly isGateway?: boolean
  /** The target is a provider, which has the model under this name and is not probed. */
  readonly external?: { readonly model: string }
}

export interface OriginRequest {
  readonly target: EngineTarget
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query for the engine. */
  readonly path: string
  /** Flat name, value; lower-case; free of hop-by-hop headers and client credentials; without content-length. */
  readonly headers: readonly string[]
  /** Parts of the body, sent unchanged. */
  readonly body: readonly Uint8Array[] | null
  readonly connectMs: number
  /** Limit until the first byte of the body. */
  readonly firstByteMs: number
  /** Aborted when the client disconnects or the gateway gives up. */
  readonly signal: AbortSignalLike
  /** Absent: timers of the runtime. */
  readonly alarms?: Timers | undefined
}

/** The part of AbortSignal that requests use, so that a platform can pass a cheaper object. */
export interface AbortSignalLike {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Timers that fire once, never early. A platform may share one clock among many timers. */
export interface Timers {
  set(delayMs: number, ring: () => void): Timer
}

export interface Timer {
  /** Has no effect after the timer has fired. */
  cancel(): void
}

/** A failed request to an engine. The message may contain addresses: log it, never send it to clients. */
export class OriginError extends Error {
  readonly failure: AttemptFailure

  constructor(failure: AttemptFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'OriginError'
    this.failure = failure
  }
}

/**
 * HTTP client for engines. A response body is opaque: the platform relays it in the cheapest way it has (raw sockets on
 * Node, native streams on Workers), with a byte-level tap.
 */
export interface Origin {
  /** Resolves with the response head. Rejects with an OriginError, or with the signal's reason. */
  send(request: OriginRequest): Promise<OriginAnswer>
  /**
   * `send` and `firstByte` in one, told in the tick in which the bytes came: what a platform with sockets can do
   * without a copy and a promise for every step. Absent: `send`.
   */
  begin?(request: OriginRequest, beginning: ResponseHandler): void
}

/** Callbacks until the first byte: `head`, then `begun`; or `failed`, once, at any time before `begun`. */
export interface ResponseHandler {
  /** Time to wait for the first byte of a stream after its head, before `begun` is called early; 0: `firstByteMs`. */
  readonly patienceMs: number
  /** false: the caller reads the answer itself; no more callbacks. */
  head(answer: OriginAnswer): boolean
  /** The first byte is here. `early`: `patienceMs` have passed without it. */
  begun(answer: OriginAnswer, early: boolean): void
  /** With an OriginError, or the signal's reason. */
  failed(error: unknown): void
}

export interface OriginAnswer {
  readonly status: number
  /** Flat name, value; lower-case; hop-by-hop, content-length and transfer-encoding removed. */
  readonly headers: readonly string[]
  /** content-type is text/event-stream. */
  readonly sse: boolean
  /** The request is sent, and its memory is not read any more. Absent: unknown. */
  readonly written?: boolean
  /** Resolves at the first byte or at the end of an empty body. Rejects with an OriginError. Call it once. */
  firstByte(): Promise<void>
  /** The first bytes of the body, which `firstByte` read. They are not relayed yet. */
  begun(): Uint8Array
  /** Reads the whole body. Rejects with an OriginError beyond `limitBytes`. */
  read(limitBytes: number): Promise<Uint8Array>
  /** Relays head and body to the client. Call it after `firstByte` has resolved, or before with `heartbeatMs` set. */
  pass(reply: RelayOptions): Response
  /** The relayed body for a reader in the gateway, which answers the client itself. In place of `pass`. */
  reader(reply: RelayOptions): BodyReader
  /** Aborts the request. */
  discard(): void
}

/** A body that is read piece by piece. */
export interface BodyReader {
  /** One call at a time. null: the end. Rejects if the body ends early, behind its error event. */
  read(): Promise<Uint8Array | null>
  /** Ends the call to the engine. Has effect once. */
  cancel(): void
}

/** Options and callbacks of a relay. */
export interface RelayOptions {
  readonly scope: RequestScope
  readonly status: number
  /** Flat name, value: headers for the client, without those of the framing. */
  readonly headers: readonly string[]
  /** Read the body on the way (first event, number of events, usage). false: relay it natively. */
  readonly observe: boolean
  /** The gateway requested the usage record: remove it from the stream. */
  readonly hideUsage: boolean
  /** Interval of SSE comments while the engine sends nothing; 0: none. */
  readonly heartbeatMs: number
  /** Idle timeout after the first byte. */
  readonly idleMs: number
  /**
   * Time that the client may read nothing; absent, 0: no limit. Relays to a socket use the limit of the socket.
   */
  readonly writeMs?: number
  /** Time after which a native relay is settled as `lapsed`, although the stream goes on; absent: never. */
  readonly nativeMs?: number
  /**
   * Called once with the `resp_…` id of a stored response, before the client gets the id: the client may use it on
   * another thread at once. Absent: ids are not needed.
   */
  onResponseId?(id: string): void
  /** Number of data events at which `onEvents` is called first; 0: no calls. */
  readonly firstEvents: number
  /**
   * Returns the number of events at which it is called again.
   * @param tokens output tokens by the last usage in the stream; null: none came
   */
  onEvents(events: number, tokens: number | null): number
  /** First content of the body. May be called again for an answer that had begun before `pass`. */
  onFirstByte(): void
  /** An observed stream that ends without `data: [DONE]` is truncated. */
  readonly endsWithDone?: boolean
  /**
   * The SSE error event at the end of a truncated stream. The connection is then closed without a clean end. Absent: it
   * ends at once, without an event.
   */
  cutEvent?(failure: AttemptFailure): Uint8Array
  /** Called exactly once, on every path. */
  settled(end: RelayResult): void
}

export interface RelayResult {
  readonly end: 'complete' | 'client_gone' | 'engine_cut' | 'lapsed'
  readonly failure: AttemptFailure | null
  /** `data:` events that passed; 0 when not observed. */
  readonly events: number
  readonly usage: Usage | null
  readonly bytes: number
}

/** Context of one incoming request. The entry point makes it. */
export interface RequestScope {
  /** Keeps work alive after the response: `ctx.waitUntil` on Workers, a drained set on Node. */
  background(work: Promise<unknown>): void
  /** Known to the platform's Origin alone, e.g. Node's request and response objects. */
  readonly client: unknown
  /** Address of the client for logs and limits; null when unknown. */
  readonly remoteAddress: string | null
  /** true: the gateway is closing connections, so an abort is not the client's. Absent: never. */
  readonly isCut?: () => boolean
  /** The request came in at `ttft.listen`, whose reporters have no keys. */
  readonly isReportListener?: boolean
  /** Timers of this request, if a clock may not be shared. Absent: the timers of the ports. */
  readonly alarms?: Timers
}

/** Lookup in caches outside the engines (LMCache). */
export interface CacheLookup {
  /** Engine → cached tokens, one entry per tier that adds some. null: no result in time. Never rejects. */
  find(question: CacheQuestion): Promise<ReadonlyMap<string, readonly CacheMatch[]> | null>
}

export interface CacheQuestion {
  readonly tokens: Uint32Array
  /** `cache_salt` for the engine; null: none. */
  readonly salt: string | null
  readonly deadline: Deadline
  /** Keeps work alive that is not awaited. */
  background(work: Promise<unknown>): void
}

export type CacheMatch = Omit<CacheHint, 'engine'>

/** A time budget that several steps share. */
export interface Deadline {
  readonly budgetMs: number
  readonly signal: AbortSignal
  readonly isOver: boolean
  readonly leftMs: number
  /** null: the budget is spent before the work is done. */
  within<Value>(work: Promise<Value>): Promise<{ readonly value: Value } | null>
}

/** Checks the health of an engine. Timers and alarms of the platform call it. */
export interface Probe {
  /** null: the gateway could not send the check. */
  (target: EngineTarget, now: () => number): Promise<ProbeSignal | null>
}

export type ProbeSignal = Extract<EngineSignal, { readonly kind: 'probe' }>

/** Built files of the dashboard, by name. null: no such file. Rejects if it cannot be read. */
export interface AssetFiles {
  (name: string): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null>
}

/**
 * TTFT reports and rollups, sharded by request: Durable Objects on Workers, memory on Node. Requests never wait for it.
 */
export interface Ttft {
  /** Time that records may wait for others before they are flushed. */
  readonly batchMs: number
  /** Merges partial reports; one result each, in order. No results while reports are off. */
  report(partials: readonly ReportPartial[]): Promise<readonly Added[]>
  /** Finds a report by the client's label, the gateway's id, or an id that an engine derived from one. */
  find(id: string): Promise<FoundReport | null>
  /** Adds records of the gateway. Safe to repeat: a (source, epoch, seq) counts once. */
  flush(batch: RecordBatch): Promise<void>
  /** Durations and counts of all records so far. */
  rollups(): Promise<readonly RollupGroup[]>
  /** Groups of all shards, one per engine, counted up to each of the ascending `limitsMs`. Absent: merge `rollups`. */
  counted?(limitsMs: readonly number[]): Promise<readonly CountedGroup[]>
  /** Deletes those of the named rollups (`groupName`) without a record since `before`, ms since the epoch. */
  forget(names: readonly string[], before: number): Promise<void>
}

/** Location of a response that an engine stores for later calls (`/v1/responses`). */
export interface StoredResponse {
  readonly tenant: string
  readonly cluster: string
  readonly pool: string
  readonly engine: string
  /** Model name in the client's request. */
  readonly model: string
}

/** Locations of stored responses. Asynchronous if they are in another thread. */
export interface StoredResponses {
  /** null: the id is unknown or expired, or belongs to another tenant. */
  find(id: string, tenant: string): StoredResponse | null | Promise<StoredResponse | null>
  /** Keeps the first tenant of an id: engines let clients choose ids, so another client could take one over. */
  keep(id: string, stored: StoredResponse): void
  /** Resolves when no thread has the id any more. */
  forget(id: string): void | Promise<void>
}

export interface Log {
  /** true: lines of this level are written. Checked before a line per request is built. Absent: true. */
  writes?(level: 'info'): boolean
  debug(event: string, fields?: Readonly<Record<string, unknown>>): void
  info(event: string, fields?: Readonly<Record<string, unknown>>): void
  warn(event: string, fields?: Readonly<Record<string, unknown>>): void
  error(event: string, fields?: Readonly<Record<string, unknown>>): void
}

/** Field `message` of a line, which log services show: the event in words. */
export const messageOf = (event: string): string => event.replaceAll('_', ' ')

/** Sum of KiB over all threads of a process. */
export interface KibCount {
  add(kib: number): void
  total(): number
}

/** Arguments of `Ports.cluster`. */
export type PoolName = readonly [clusterId: string, pool: string]

/** Carrier of the limits per key. Rejects if it is unreachable. */
export interface Limiter {
  /** Takes all limits of a request or none. */
  reserve(reservation: Reservation): LimitAnswer | Promise<LimitAnswer>
  /** Ends a reserved request. Has effect once. */
  settle(settlement: Settlement): Promise<void> | void
  /** Counts a running request that was admitted while the carrier was unreachable, once it is back. */
  adopt?(reservation: Reservation): void
  /** How a request with a limit of `concurrent` says that it still runs. Absent: the carrier knows. */
  readonly renewal?: Renewal | undefined
}

export interface Renewal {
  readonly everyMs: number
  renew(running: RunningRequest): Promise<void>
}

export interface Ports {
  /** State of one cluster's pool; the same object for the same names. */
  cluster(clusterId: string, pool: string): Cluster
  readonly origin: Origin
  /** Milliseconds since the epoch. On Workers it moves only with I/O. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** A fresh, unguessable id. */
  newId(): string
  readonly log: Log
  /** Absent: reports and rollups are off. */
  readonly ttft?: Ttft
  /** Locations of stored responses, shared with other threads or replicas. Absent: this gateway keeps its own. */
  readonly storedResponses?: StoredResponses
  /** Memory of request bodies in all threads. Absent: the gateway has the only thread. */
  readonly bodyCount?: KibCount
  /** Limits per key, shared with other threads or isolates. Absent: this gateway keeps its own. */
  readonly limiter?: Limiter
  /** Absent: timers of the runtime. */
  readonly alarms?: Timers
  /** Resolves after other waiting work has run; called within long work. Absent: long work is not interrupted. */
  yieldToEventLoop?(): Promise<void>
  /**
   * Posts to services other than engines, such as a trace collector. Resolves with the status; the body is not read.
   */
  post?(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<number>
  /** GET of a small JSON document from a service other than engines. Rejects if it is unreachable. Absent: none is. */
  fetchJson?(url: string): Promise<unknown>
  /**
   * JSON.parse for a request with a long prompt, whose texts become `LongText` where prompts are read from. null: parse
   * it whole, and say what is wrong with it. Absent: always whole.
   */
  parseLong?(bytes: Uint8Array): object | null | Promise<object | null>
  /** Longest measured prompt that an edge may send in a header. Absent: it sends none. */
  readonly measuredPromptBytes?: number
}
