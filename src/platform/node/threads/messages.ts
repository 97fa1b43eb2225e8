/** Messages between threads. Plain data, because messages are cloned. */
import type { GroupQuery } from '../../../api/worker-group.ts'
import type { Config } from '../../../config.ts'
import type { BudgetCharge } from '../../../core/budgets/budget.ts'
import type { Admission } from '../../../core/contract/admission.ts'
import type { BookingEvent } from '../../../core/contract/booking-event.ts'
import type { Resume } from '../../../core/contract/resume.ts'
import type { LimitedRequest, Settlement } from '../../../core/limits/key-limits.ts'
import type { PoolMethod } from '../../../origin/pools/pool-transport.ts'
import type { PoolName } from '../../../ports/pool.ts'
import type { IssuedKey } from '../../../core/keys/issued-key.ts'
import type { IssuedKeyStore } from '../../../ports/issued-keys.ts'
import type { StoredResponse } from '../../../ports/stored-responses.ts'
import type { Ttft } from '../../../ports/ttft.ts'

export type TtftQuestion = Exclude<keyof Ttft, 'batchMs'>

/** Messages about pools. A pool is its number in the configuration, a booking its key (`bookingKey`). */
export type PoolMessage =
  | readonly [type: 'admit', pool: number, admission: Admission]
  | readonly [type: 'wait', pool: number, admission: Admission, waitedMs: number]
  | readonly [type: 'resume', pool: number, booking: Resume]
  | readonly [type: 'renew', pool: number, key: string]
  | readonly [type: 'event', pool: number, event: BookingEvent]
  | readonly [type: 'pool', pool: number, method: PoolMethod, args: readonly unknown[]]

/** Messages of an I/O thread to the main thread. */
export type ToMain =
  | PoolMessage
  | readonly [type: 'ttft', question: TtftQuestion, given: readonly unknown[]]
  | readonly [type: 'limit_reserve', request: LimitedRequest]
  | readonly [type: 'limit_charge', charge: BudgetCharge]
  | readonly [type: 'limit_settle', settlement: Settlement]
  | readonly [type: 'issued_keys', method: keyof IssuedKeyStore, given: string | IssuedKey | null]
  | readonly [type: 'response_find', id: string, tenant: string]
  | readonly [type: 'response_keep', id: string, stored: StoredResponse]
  | readonly [type: 'response_forget', id: string]
  | readonly [type: 'probe_soon', pool: number, engine: string]
  | readonly [type: 'ask_others', query: GroupQuery]
  /** The thread listens. `reports`: `host:port` of the listener for reports; null: none. */
  | readonly [type: 'listening', url: string, reports: string | null]

/** Messages of the main thread to an I/O thread. */
export type ToThread =
  /** New configuration. Answered when new requests use it. */
  | readonly [type: 'adopt', config: Config, pools: readonly PoolName[], sameFiles: boolean]
  /** When a newer configuration was refused, ms since the epoch; null: none was. */
  | readonly [type: 'config_refused', at: number | null]
  | readonly [type: 'group_query', query: GroupQuery]
  /** Answered at once, after every message that was posted before. */
  | readonly [type: 'sync']
  /** Answered with a DrainResult when all requests have ended. */
  | readonly [type: 'stop']
  | readonly [type: 'stop_now']
