/** Everything outside the product, as interfaces. The entries choose who implements them. */
import type {
  Admission,
  CacheHint,
  ClusterDigest,
  ClusterGlance,
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
import type { RegionDigest } from './core/contract/region-digest.ts'
import type { KvEventDelta, KvEventDeltaState } from './core/kv-events/delta.ts'
import type { PoolEvent } from './core/pool/pool-events.ts'
import type { RegistryAnswer, RegistryCall } from './core/lmcache/registry-call.ts'
import type { ReportPartial } from './core/reports/partial.ts'
import type { RecordBatch } from './core/reports/combine.ts'
import type { Added } from './core/reports/report-store.ts'
import type { CountedGroup, RollupGroup } from './core/reports/rollups.ts'
import type { FoundReport } from './core/reports/ttft-state.ts'

/**
 * The single sequencer of one cluster's pool: a Durable Object on Workers, the same class in process on Node.
 * `admit` ranks and books in one synchronous step inside, which is what makes concurrent requests see each other.
 */
export interface Cluster {
  /** Adopts only newer versions; removed engines drain. */
  configure(version: number, pool: PoolConfig): Promise<void>
  /** `scope` keeps alive what the lease has to say; absent: its caller waits for it. */
  admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<Admitted>
  /** As `admit`, without a promise, for books in this process. null: not at once; ask `admit`. Absent: never at once. */
  admitNow?(admission: Admission): Admitted | null
  /** Books again, without ranking, what an evicted object has forgotten. Harmless for a booking it still knows. */
  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease>
  /** Ranks without booking. */
  rank(admission: Admission): Promise<{ readonly decision: Decision } | { readonly refusal: Refusal }>
  observe(signals: readonly EngineSignal[]): Promise<void>
  /** What an LMCache server says to the pool's registry, and what it is told. Absent where none is kept. */
  registry?(call: RegistryCall): Promise<RegistryAnswer>
  /** What engines' own KV events say of their caches; one answer each. Absent where none are taken. */
  feed?(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]>
  digest(): Promise<ClusterDigest>
  /** What a new prompt may expect there, for those who choose among clusters. */
  outlook(): Promise<RegionDigest>
  explain(id: string): Promise<Decision | null>
  /** A digest for the eye, with the last decisions, newest first. Absent: the digest has to do. */
  glance?(decisions: number): Promise<ClusterGlance>
}

export type Admitted =
  | {
      readonly lease: Lease
      readonly placement: Placement
      readonly policy: string
      readonly predictedTtftMs: number | null
      /** For the log. Absent: none. */
      readonly events?: readonly PoolEvent[]
    }
  | { readonly refusal: Refusal }

/** Holds one booking. Every path ends in `release`; a lease nobody renews lapses. */
export interface Lease {
  /** What is said is taken, in order, before the call returns, and nobody need wait for it: the books are in this process, or the lease sees to it. */
  readonly inProcess?: boolean
  /** A leg of a split has answered before the first token: its engine is free. Absent where nothing is split. */
  legDone?(part: 'encode' | 'prefill', stages: StageTimes, usage?: Usage | null): Promise<void>
  /** The prefill is done: its work leaves the queue. */
  firstToken(stages: StageTimes): Promise<void>
  /** Output so far, in blocks; observed requests only, coalesced on block boundaries. */
  progress(outputBlocks: number): Promise<void>
  /** A sign of life. Rejects when the object no longer knows the booking: `resume` it. */
  renew(): Promise<void>
  /** Has effect exactly once. */
  release(outcome: Outcome): Promise<void>
}

/** Where an engine is and how to speak to it. Never shown to clients. */
export interface EngineTarget {
  readonly id: string
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Sent on every request: the engine's key, access tokens. Flat name, value; lower-case names. */
  readonly headers: readonly string[]
  /** Workers: name of a binding to fetch through, for private networks. */
  readonly binding: string | null
  /** It is another Firstlight, with engines of its own. */
  readonly isGateway?: boolean
}

export interface OriginRequest {
  readonly target: EngineTarget
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query as the engine sees them. */
  readonly path: string
  /** Flat name, value; lower-case; free of hop-by-hop headers and client credentials; without content-length. */
  readonly headers: readonly string[]
  /** The body in pieces, sent as they are. */
  readonly body: readonly Uint8Array[] | null
  readonly connectMs: number
  /** Until the first body byte. */
  readonly firstByteMs: number
  /** Aborted when the client is gone or the gateway gives up. */
  readonly signal: AbortSignalLike
  /** Absent: timers of the runtime. */
  readonly alarms?: Timers | undefined
}

/** As much of an AbortSignal as the way of a request needs: a real one fits, and a platform may have a cheaper one. */
export interface AbortSignalLike {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Rings once, some time after it was set: a little late rather than early. One clock for many, where timers are dear. */
export interface Timers {
  set(delayMs: number, ring: () => void): Timer
}

export interface Timer {
  /** Harmless when it has rung. */
  cancel(): void
}

/** An engine could not be asked, or broke. The message may name addresses: log only. */
export class OriginError extends Error {
  readonly failure: AttemptFailure

  constructor(failure: AttemptFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'OriginError'
    this.failure = failure
  }
}

/**
 * The pipe. An answer's body is opaque: only the platform that made it knows how to pass it on cheaply
 * (raw sockets on Node, native streams on Workers), with a byte-level tap on the way.
 */
export interface Origin {
  /** Resolves with the answer's head. Rejects with an OriginError, or with the signal's reason. */
  send(request: OriginRequest): Promise<OriginAnswer>
  /**
   * `send` and `firstByte` in one, told in the tick in which the bytes came: what a platform with sockets can do without
   * a copy and a promise for every step. Absent: `send`.
   */
  begin?(request: OriginRequest, beginning: ResponseHandler): void
}

/** Hears how a request begins: `head`, then `begun`; or `failed`, once, at any time before that. */
export interface ResponseHandler {
  /** Silence of an event stream after its head for which the caller will wait; 0: as long as `firstByteMs` allows. */
  readonly patienceMs: number
  /** false: the caller has taken the answer to itself and hears no more. */
  head(answer: OriginAnswer): boolean
  /** `early`: patience is over, and the first byte still to come. */
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
  /** The request has left, and the memory it was written from is not read any more. Absent: not known. */
  readonly written?: boolean
  /** Resolves when the first body byte is here or the body ended empty; rejects with an OriginError. May be called once. */
  firstByte(): Promise<void>
  /** What `firstByte` waited for: the first bytes of the body, still to be passed on. */
  begun(): Uint8Array
  /** The whole body, for answers the gateway itself must read. Rejects with an OriginError beyond `limitBytes`. */
  read(limitBytes: number): Promise<Uint8Array>
  /** Passes head and body to the client. Call after `firstByte` resolved, or before it with `heartbeatMs` set. */
  pass(reply: RelayOptions): Response
  /** Lets go of the engine: aborts what still runs. */
  discard(): void
}

/** How the answer is to be passed on, and who wants to know how it went. */
export interface RelayOptions {
  readonly scope: RequestScope
  readonly status: number
  /** Flat name, value: all headers for the client but the framing ones. */
  readonly headers: readonly string[]
  /** Read what passes (first data event, event count, usage). false: native, nothing read. */
  readonly observe: boolean
  /** The usage record was asked for by us: keep it from the client. */
  readonly hideUsage: boolean
  /** SSE comments while no byte has come for this long; 0: none. */
  readonly heartbeatMs: number
  /** Longest silence between bytes after the first. */
  readonly idleMs: number
  /**
   * Longest time the client may take nothing of what is pulled for it; absent, 0: no limit. What goes straight to a socket
   * has the socket's own limit.
   */
  readonly writeMs?: number
  /** A stream that nobody reads on its way counts as `lapsed` after this; absent: never. It goes on, but is settled. */
  readonly nativeMs?: number
  /**
   * Called once with the `resp_…` id of a stored response, before the client can read the id: the client may send it to
   * another thread at once. Absent: nobody looks for an id.
   */
  onResponseId?(id: string): void
  /** Call `onEvents` each time this many more data events have passed; 0: never. */
  readonly eventStep: number
  onEvents(events: number): void
  /** First data event at the gateway, when `pass` was called before it. */
  onFirstByte(): void
  /** An event stream that ends without `data: [DONE]` is broken, however clean its end; looked at on observed streams. */
  readonly endsWithDone?: boolean
  /** Bytes of the one SSE error event that ends a broken stream. Never followed by a clean end. */
  cutEvent(failure: AttemptFailure): Uint8Array
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

/** What belongs to one incoming request. Made by the entry. */
export interface RequestScope {
  /** Keeps work alive after the response: `ctx.waitUntil` on Workers, a drained set on Node. */
  background(work: Promise<unknown>): void
  /** Known to the platform's Origin alone, e.g. Node's request and response objects. */
  readonly client: unknown
  /** Address of the client for logs and limits; null when unknown. */
  readonly remoteAddress: string | null
  /** Does the gateway end now, and cut what still runs? Then it is not the client who goes. Absent: it never does. */
  readonly isCut?: () => boolean
  /** The request came in at `ttft.listen`, whose reporters have no keys. */
  readonly isReportListener?: boolean
  /** The request's own, where a clock may not be shared; absent: those of the ports. */
  readonly alarms?: Timers
}

/** What caches outside the engines (LMCache) hold of a prompt. */
export interface CacheLookup {
  /** Engine → what it can read, one entry for each tier that adds something. null: not known in time. Never rejects. */
  find(question: CacheQuestion): Promise<ReadonlyMap<string, readonly CacheMatch[]> | null>
}

export interface CacheQuestion {
  readonly tokens: Uint32Array
  /** The `cache_salt` the engine is sent; null: none. */
  readonly salt: string | null
  readonly deadline: Deadline
  /** Keeps work alive that nobody waits for. */
  background(work: Promise<unknown>): void
}

export type CacheMatch = Omit<CacheHint, 'engine'>

/** A span of time that several steps share. */
export interface Deadline {
  readonly budgetMs: number
  readonly signal: AbortSignal
  readonly isOver: boolean
  readonly leftMs: number
  /** null: the time is up before the work is done. */
  within<Value>(work: Promise<Value>): Promise<{ readonly value: Value } | null>
}

/** Asks an engine how it is. Platform timers and alarms call it. */
export interface Probe {
  /** null: the gateway could not ask. */
  (target: EngineTarget, now: () => number): Promise<ProbeSignal | null>
}

export type ProbeSignal = Extract<EngineSignal, { readonly kind: 'probe' }>

/** Built files of the dashboard, by plain name. null: there is none, or nothing was built. Rejects when it cannot be read. */
export interface AssetFiles {
  (name: string): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null>
}

/**
 * What is known of requests before their first token, sharded by request: Durable Objects on Workers, memory on Node.
 * Never on a request's path.
 */
export interface Ttft {
  /** How long records may wait for company before they are flushed. */
  readonly batchMs: number
  /** Merges partials; one answer each, in order. Nothing is kept, and nothing answered, while reports are off. */
  report(partials: readonly ReportPartial[]): Promise<readonly Added[]>
  /** By the client's label, the gateway's id, or an id an engine made of either. */
  find(id: string): Promise<FoundReport | null>
  /** The gateway's own records, in batches. Safe to repeat: a (source, epoch, seq) counts once. */
  flush(batch: RecordBatch): Promise<void>
  /** Durations and counts of everything flushed so far. */
  rollups(): Promise<readonly RollupGroup[]>
  /** Of all shards, one group an engine, counted up to each of `limitsMs`, which grow. Absent: `rollups` are to be merged. */
  counted?(limitsMs: readonly number[]): Promise<readonly CountedGroup[]>
  /** Of the rollups of these names (`groupName`), forgets what nothing was heard of since `before`, ms since the epoch. */
  forget(names: readonly string[], before: number): Promise<void>
}

/** Where an answer lives that an engine keeps for later calls (`/v1/responses`). */
export interface StoredResponse {
  readonly tenant: string
  readonly cluster: string
  readonly pool: string
  readonly engine: string
  /** Name the client asked for. */
  readonly model: string
}

/** Who holds which response. In another thread's memory every call is a question. */
export interface StoredResponses {
  /** null for an id nobody told us, that was forgotten, or that belongs to another tenant. */
  find(id: string, tenant: string): StoredResponse | null | Promise<StoredResponse | null>
  /** An id stays with its first tenant: engines let clients choose ids, and nobody may take over another's. */
  keep(id: string, holding: StoredResponse): void
  /** Resolves when no thread finds the id any more. */
  forget(id: string): void | Promise<void>
}

export interface Log {
  /** Is a line of this level written? Asked before one is put together that every request has. Absent: yes. */
  writes?(level: 'info'): boolean
  debug(event: string, fields?: Readonly<Record<string, unknown>>): void
  info(event: string, fields?: Readonly<Record<string, unknown>>): void
  warn(event: string, fields?: Readonly<Record<string, unknown>>): void
  error(event: string, fields?: Readonly<Record<string, unknown>>): void
}

/** A count of KiB that all threads of a process share. */
export interface KibCount {
  add(kib: number): void
  total(): number
}

/** A pool, as `Ports.cluster` is asked for it. */
export type PoolName = readonly [clusterId: string, pool: string]

export interface Ports {
  /** The object of one cluster's pool; the same object for the same names. */
  cluster(clusterId: string, pool: string): Cluster
  readonly origin: Origin
  /** Milliseconds since the epoch. On Workers it moves only with I/O. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** A fresh, unguessable id. */
  newId(): string
  readonly log: Log
  /** Absent: this runtime keeps no reports and no rollups while `ttft` is off. */
  readonly ttft?: Ttft
  /** Who holds which response, where others are told of it. Absent: it stays in this gateway. */
  readonly held?: StoredResponses
  /** Of request bodies. Absent: the gateway is the only one of its process and counts for itself. */
  readonly bodyCount?: KibCount
  /** Absent: timers of the runtime. */
  readonly alarms?: Timers
  /** Resolves when everything else that waits has had its turn: asked for within long work. Absent: work is done in one go. */
  yieldToEventLoop?(): Promise<void>
  /** Posts to services that are no engines, such as a trace collector; the status of the answer, whose body is not read. */
  post?(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<number>
  /**
   * JSON.parse for a request with a long prompt, whose texts become `LongText` where prompts are read from. null: parse it
   * whole, and say what is wrong with it. Absent: always whole.
   */
  parseLong?(bytes: Uint8Array): object | null | Promise<object | null>
}
