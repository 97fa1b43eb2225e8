/** One deployment under test. */
import type { Ledger } from './ledger.ts'
import type { LogReader } from './log.ts'

/** A process or thread that was killed while it had requests. `url` null: behind the gateway of the clients. */
export interface Kill {
  readonly at: number
  readonly url: string | null
}

export interface Deployment {
  readonly log: LogReader
  readonly kills: readonly Kill[]
  /** Key of the clients. */
  readonly key: string
  /** Base URL for the next request. */
  target(): string
  rss(): number
  /** Collects garbage, so that `rss` is that of what is in use. Absent: the runtime does so often enough. */
  collect?(): Promise<void>
  /** Time until memory is warm, ms. Absent: soon. */
  readonly warmMs?: number
  /** Open bookings in all processes. */
  ledger(): Promise<Ledger>
  /** After a leak: what each process holds of whose bookings, and what the server holds. */
  holdings?(): Promise<readonly string[]>
  /** Changes the deployment under load. Returns what it did. */
  disrupt(random: () => number): Promise<string>
  stop(): Promise<void>
}

/** workerd collects old memory seldom: its RSS grew for five minutes at 25 requests per second, then stayed. */
export const WORKERD_WARM_MS = 300_000
