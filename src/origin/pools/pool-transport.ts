/** Interface between a gateway and pool state in another thread or in a Durable Object. */
import type { Admission } from '../../core/contract/admission.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'
import type { Renewal } from '../../core/contract/renewal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { AdmitAnswer } from '../../core/pool/admission-result.ts'
import type { Lease } from '../../ports/lease.ts'
import type {
  KvEventFeed,
  PoolCosts,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  PoolRegistry,
} from '../../ports/pool.ts'
import type { RequestScope } from '../../ports/request-scope.ts'

type Arguments<Method> = Method extends (...args: infer Args) => unknown ? Args : never

/**
 * Calls of a pool and its capabilities that a transport makes by name, with plain data. The names are those of the
 * methods of a ClusterObject, which stay as they are. undefined: not supported.
 */
const METHODS = {
  configure: (pool: PoolPort, ...args: Arguments<PoolPort['configure']>) => pool.configure(...args),
  observe: (pool: PoolPort, ...args: Arguments<PoolPort['observe']>) => pool.observe(...args),
  digest: (pool: PoolPort) => pool.digest(),
  leave: ({ queue }: PoolPort, ...args: Arguments<PoolQueue['leave']>) => queue?.leave(...args),
  registry: ({ registry }: PoolPort, ...args: Arguments<PoolRegistry['call']>) => registry?.call(...args),
  feed: ({ kvEvents }: PoolPort, ...args: Arguments<KvEventFeed['feed']>) => kvEvents?.feed(...args),
  rank: ({ decisions }: PoolPort, ...args: Arguments<PoolDecisions['dryRun']>) => decisions?.dryRun(...args),
  explain: ({ decisions }: PoolPort, ...args: Arguments<PoolDecisions['explain']>) => decisions?.explain(...args),
  summary: ({ overview }: PoolPort, ...args: Arguments<PoolOverview['summary']>) => overview?.summary(...args),
  costOf: async ({ costs }: PoolPort, ...args: Arguments<PoolCosts['costOf']>) => costs?.costOf(...args) ?? null,
  regionDigest: ({ region }: PoolPort) => region?.digest(),
} as const

export type PoolMethod = keyof typeof METHODS

/** Makes a call that a transport carried. Throws if the pool has no such capability. */
export function callPool(pool: PoolPort, method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
  const made = (METHODS[method] as ((pool: PoolPort, ...args: readonly unknown[]) => unknown) | undefined)?.(
    pool,
    ...args,
  )
  if (made === undefined) throw new Error(`the pool does not support ${method}`)
  return made as Promise<unknown>
}

export type BackgroundScope = Pick<RequestScope, 'background'>

/** Carries calls and booking events to the pool. Calls reject if the pool is unreachable. */
export interface PoolTransport {
  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown>
  admit(admission: Admission): Promise<AdmitAnswer>
  /** As `PoolQueue.wait`. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer>
  /** As `RemoteState.admitLimitMs`. Absent: no limit. */
  admitLimitMs?(): number | null
  /** Rejects if the pool refuses. */
  resume(booking: Resume): Promise<void>
  /** Renews the booking of this key (`bookingKey`). */
  renew(key: string): Promise<Renewal>
  /** Delivers events in order. Never rejects; the caller need not wait. `scope` keeps the delivery alive. */
  send(event: BookingEvent, scope: BackgroundScope | undefined): Promise<void>
}

/** Applies an event to the lease of its booking. */
export function applyToLease(lease: Lease, event: BookingEvent): Promise<void> {
  switch (event[0]) {
    case 'leg_done':
      return lease.legDone(event[2], event[3], event[4])
    case 'first_token':
      return lease.firstToken(event[2])
    case 'progress':
      return lease.progress(event[2])
    case 'release':
      return lease.release(event[2])
  }
}
