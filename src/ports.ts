/** Interfaces to everything outside the product. The entry points choose the implementations. */
import type { Alerts } from './ports/alerts.ts'
import type { IssuedKeyStore } from './ports/issued-keys.ts'
import type { Log } from './ports/log.ts'
import type { Origin } from './ports/origin.ts'
import type { PoolPort } from './ports/pool.ts'
import type { ServiceClient } from './ports/services.ts'
import type { SharedState } from './ports/shared-state.ts'
import type { Timers } from './ports/timers.ts'
import type { Ttft } from './ports/ttft.ts'

/** An optional port is a capability that not every runtime or configuration has. docs/embed.md lists who has which. */
export interface Ports {
  /** State of one pool of a cluster; the same object for the same names. */
  pool(clusterId: string, model: string): PoolPort
  readonly origin: Origin
  readonly services: ServiceClient
  /** Milliseconds since the epoch. On Workers it moves only with I/O. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** A fresh, unguessable id. */
  newId(): string
  readonly log: Log
  readonly alerts: Alerts
  /** For all work without timers in its `RequestScope`. */
  readonly timers: Timers
  /** Longest header in which an edge may send a measured prompt here, bytes. 0: it may send none. */
  readonly maxMeasuredPromptBytes: number
  /** Absent: no other thread, replica or isolate shares state with this gateway. */
  readonly shared?: SharedState | undefined
  /** Reports and rollups. Absent: there are none. */
  readonly ttft?: Ttft | undefined
  /** Place for keys made at run time, which is used if `issued_keys` is configured. Absent: there is none. */
  readonly issuedKeys?: IssuedKeyStore | undefined
  /** Resolves after other waiting work has run; called within long work. Absent: long work is not interrupted. */
  readonly yieldToEventLoop?: (() => Promise<void>) | undefined
  /**
   * JSON.parse for a request with a long prompt, whose texts become `Utf8Text` where prompts are read from. null: parse
   * it whole, and report its error. Absent: always whole.
   */
  readonly parseLong?: ((bytes: Uint8Array) => object | null | Promise<object | null>) | undefined
}

/** Ports of a runtime, which names all capabilities: it does not compile without saying of each whether it is there. */
export type RuntimePorts = { readonly [Name in keyof Required<Ports>]: Ports[Name] }
