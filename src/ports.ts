/** Interfaces to everything outside the product. The entry points choose the implementations. */
import type { Alerts } from './ports/alerts.ts'
import type { IssuedKeyStore } from './ports/issued-keys.ts'
import type { KibCount } from './ports/kib-count.ts'
import type { Limiter } from './ports/limiter.ts'
import type { Log } from './ports/log.ts'
import type { Origin } from './ports/origin.ts'
import type { PoolPort } from './ports/pool.ts'
import type { StoredResponses } from './ports/stored-responses.ts'
import type { Timers } from './ports/timers.ts'
import type { Ttft } from './ports/ttft.ts'

export interface Ports {
  /** State of one pool of a cluster; the same object for the same names. */
  pool(clusterId: string, model: string): PoolPort
  readonly origin: Origin
  /** Milliseconds since the epoch. On Workers it moves only with I/O. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** A fresh, unguessable id. */
  newId(): string
  readonly log: Log
  /** Absent: no webhook is configured. */
  readonly alerts?: Alerts | undefined
  /** Absent: reports and rollups are off. */
  readonly ttft?: Ttft
  /** Locations of stored responses, shared with other threads or replicas. Absent: this gateway keeps its own. */
  readonly storedResponses?: StoredResponses
  /** Keys made at run time. Absent: `issued_keys` is not configured, or there is no place for them. */
  readonly issuedKeys?: IssuedKeyStore | undefined
  /** Memory of request bodies in all threads. Absent: the gateway has the only thread. */
  readonly bodyCount?: KibCount
  /** Limits per key, shared with other threads or isolates. Absent: this gateway keeps its own. */
  readonly limiter?: Limiter
  /** Absent: timers of the runtime. */
  readonly timers?: Timers
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
   * it whole, and report its error. Absent: always whole.
   */
  parseLong?(bytes: Uint8Array): object | null | Promise<object | null>
  /** Longest measured prompt that an edge may send in a header. Absent: it sends none. */
  readonly measuredPromptBytes?: number
}
