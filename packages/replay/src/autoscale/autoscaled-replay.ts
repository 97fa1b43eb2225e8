import type { CapacityError } from '../../../../src/core/contract/pool-capacity.ts'
import type { SloConfig } from '../../../../src/core/contract/pool-config.ts'
import { GatewayRouter } from '../replay/gateway-router.ts'
import type { Job } from '../replay/job.ts'
import { type FleetPlan, type Pace, replay } from '../replay/plan.ts'
import type { RunningFleet } from '../replay/run.ts'
import type { RouterKind } from '../replay/router.ts'
import { keepsSlo, type Slo } from '../replay/statistics.ts'
import type { Trace } from '../replay/trace.ts'
import { ElasticFleet, type FleetChange } from './elastic-fleet.ts'

/** Trace, engines and objective of an autoscaled replay. */
export interface AutoscaledReplay {
  readonly trace: Trace
  /** Its first engine is the model of all replicas. */
  readonly fleet: FleetPlan
  readonly pace: Omit<Pace, 'scale'>
  readonly slo: Slo
  /** The gateway refuses what would miss the objective. false: every request waits for as long as it takes. */
  readonly refuses: boolean
  readonly minReplicas: number
  readonly maxReplicas: number
  /** Replicas that serve at the start. */
  readonly beginsWith: number
  /** Time from the order of a replica until it serves, seconds. */
  readonly startS: number
}

/** An autoscaled replay whose number of replicas at the start follows from something else. */
export type UnbegunReplay = Omit<AutoscaledReplay, 'beginsWith'>

/** Sets the number of replicas of a run. */
export type Scaler = (fleet: ElasticFleet, router: GatewayRouter, at: RunningFleet['at']) => void

export interface AutoscaledResult {
  readonly jobs: readonly Job[]
  /** Share of all requests that were answered within the objective. */
  readonly keptShare: number
  readonly refusedShare: number
  readonly engineHours: number
  readonly spanMs: number
  readonly changes: readonly FleetChange[]
  /** Error of the published capacity in the last hour. null: no objective, or no minute was compared. */
  readonly capacityError: CapacityError | null
}

/** Replays a trace on a fleet whose size a scaler sets. */
export function autoscaledReplay(given: AutoscaledReplay, scaler: Scaler): AutoscaledResult {
  const { trace, fleet, slo, beginsWith, startS } = given
  let elastic: ElasticFleet | null = null
  let gateway: GatewayRouter | null = null
  const scale: NonNullable<Pace['scale']> = (running, router) => {
    gateway = router as GatewayRouter
    elastic = new ElasticFleet(running, gateway, startS * 1000)
    elastic.begin(beginsWith)
    scaler(elastic, gateway, running.at)
  }
  const { jobs, refused, spanMs } = replay(trace, fleet, routerKind(given.refuses ? slo : null), {
    ...given.pace,
    scale,
  })
  return {
    jobs,
    keptShare: jobs.filter((job) => keepsSlo(job, slo)).length / jobs.length,
    refusedShare: refused / jobs.length,
    engineHours: elastic!.engineHours(spanMs),
    spanMs,
    changes: elastic!.changes,
    capacityError: gateway!.state.digest(spanMs).capacityError ?? null,
  }
}

function routerKind(objective: Slo | null): RouterKind {
  const slo: SloConfig | null = objective === null ? null : { ttftMsPer1kTokens: null, ...objective }
  const name = 'predicted'
  const create: RouterKind['create'] = (context) =>
    new GatewayRouter({ name, policy: { name, options: {} }, ...(slo === null ? {} : { slo }) }, context)
  return { name, doc: 'predicted with slo', source: '', create }
}
