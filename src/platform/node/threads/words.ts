/** What the threads say to each other. Plain data: it is cloned on the way. */
import type { FellowQuestion } from '../../../api/fellows.ts'
import type { Config } from '../../../config.ts'
import type { EarlyPart } from '../../../core/cluster/books.ts'
import type { Admission, Outcome, Placement, Refusal, Resume, StageTimes, Usage } from '../../../core/cluster/contract.ts'
import type { Cluster, Holding, PoolName, Ttft } from '../../../ports.ts'

/** Questions about a whole pool, which go to its Cluster as they are. */
export type PoolQuestion = Exclude<keyof Cluster, 'admit' | 'admitNow' | 'resume'>
export type TtftQuestion = Exclude<keyof Ttft, 'batchMs'>

/** Pools and bookings go by number: pools by their place in the configuration, leases as the I/O thread counts them. */
export type ToBooks =
  | readonly [said: 'admit', pool: number, lease: number, admission: Admission]
  | readonly [said: 'resume', pool: number, lease: number, booking: Resume]
  | readonly [said: 'leg_done', lease: number, part: EarlyPart, stages: StageTimes, usage: Usage | null]
  | readonly [said: 'first_token', lease: number, stages: StageTimes]
  | readonly [said: 'progress', lease: number, outputBlocks: number]
  | readonly [said: 'renew', lease: number]
  | readonly [said: 'release', lease: number, outcome: Outcome]
  | readonly [said: 'pool', pool: number, question: PoolQuestion, given: readonly unknown[]]

/** What `admit` is answered with. */
export type AnswerToAdmit =
  | { readonly refusal: Refusal }
  | { readonly placement: Placement; readonly policy: string; readonly predictedTtftMs: number | null }

/** What an I/O thread says to the main thread. */
export type ToMain =
  | ToBooks
  | readonly [said: 'ttft', question: TtftQuestion, given: readonly unknown[]]
  | readonly [said: 'held_find', id: string, tenant: string]
  | readonly [said: 'held_keep', id: string, holding: Holding]
  | readonly [said: 'held_forget', id: string]
  | readonly [said: 'suspect', pool: number, engine: string]
  | readonly [said: 'fellows', question: FellowQuestion]
  /** It listens. `reports`: `host:port` of the listener for reports; null: there is none. */
  | readonly [said: 'listening', url: string, reports: string | null]

/** What the main thread says to an I/O thread. */
export type ToThread =
  /** Another configuration. Answered when new requests are served by it. */
  | readonly [said: 'adopt', config: Config, pools: readonly PoolName[], sameFiles: boolean]
  | readonly [said: 'fellow', question: FellowQuestion]
  /** Answered at once, behind every message that was posted before. */
  | readonly [said: 'sync']
  /** Answered with `Drained` when everything has ended. */
  | readonly [said: 'stop']
  | readonly [said: 'stop_now']
