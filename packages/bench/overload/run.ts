/** One replay with admission control and its figures. */
import type { PoolConfig, SloConfig } from '../../../src/core/contract/pool-config.ts'
import { type GatewayOptions, GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import { type FleetPlan, replay } from '../../replay/src/replay/plan.ts'
import type { speedsOn } from '../../replay/src/replay/sustained-speed.ts'
import type { ReplayRouter, Route, RouterContext, RouterKind } from '../../replay/src/replay/router.ts'
import { type Figures, figuresOf } from '../../replay/src/replay/statistics.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'

/** Objectives of the bench: TTFT of 5 s and 100 ms between tokens, as in docs/measurements/overload.md. */
export const SLO: SloConfig = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: 100 }

/** The default of `queue`. */
export const QUEUE: NonNullable<PoolConfig['queue']> = { maxRequests: 256, maxWaitMs: 2_000 }

/** `predicted` with admission control. */
export function overloadKind(name: string, slo: SloConfig, more: Partial<GatewayOptions> = {}): RouterKind {
  const policy = { name: 'predicted', options: {} }
  return {
    name,
    doc: 'predicted with slo',
    source: '',
    create: (context) => new GatewayRouter({ name, policy, slo, ...more }, context),
  }
}

export interface Cell {
  readonly trace: Trace
  readonly fleet: FleetPlan
  readonly kind: RouterKind
  readonly load: number
  readonly seed: number
  readonly speedAt: ReturnType<typeof speedsOn>
}

export interface OverloadFigures extends Omit<Figures, 'refused'> {
  /** Share of refused requests. */
  readonly refused: number
  /** Admitted share of the longest tenth of the prompts, relative to that of all. */
  readonly longestDecileShare: number
  /** Share of requests that were refused although some engine would have met the TTFT objective, by its true state. */
  readonly uselessRefusals: number
  readonly jobs: readonly Job[]
}

const admitted = (of: readonly Job[]): number => of.filter(({ endedAt }) => endedAt >= 0).length / of.length

export function runOnce({ trace, fleet, kind, load, seed, speedAt }: Cell): OverloadFigures {
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed, clockMs: null }
  let useless = 0
  const counting: RouterKind = {
    ...kind,
    create: (context) => watching(kind.create(context), context, () => (useless += 1)),
  }
  const result = replay(trace, fleet, counting, { ...pace, speed: speedAt(load, trace, pace) })
  const { jobs, refused } = result
  const longest = jobs.toSorted((a, b) => b.promptTokens - a.promptTokens).slice(0, Math.ceil(jobs.length / 10))
  return {
    ...figuresOf(result, { ttftMs: SLO.ttftMs!, itlMs: SLO.itlMs! }),
    refused: refused / jobs.length,
    longestDecileShare: admitted(longest) / admitted(jobs),
    uselessRefusals: useless / jobs.length,
    jobs,
  }
}

/** Counts refusals, of jobs that wait at the end of their wait. */
function watching(router: ReplayRouter, { engines }: RouterContext, count: () => void): ReplayRouter {
  let at = 0
  const refused = (job: Job): void => {
    if (Math.min(...engines.map((engine) => engine.exactTtftMs(job, at))) <= SLO.ttftMs!) count()
  }
  const watched: Pick<ReplayRouter, 'route' | 'wait' | 'wake'> = {
    route(job, now) {
      at = now
      const route = router.route(job, now)
      if (route === null && router.wait === undefined) refused(job)
      return route
    },
    wait(job, now, done) {
      const end = (route: Route | null): void => {
        if (route === null) refused(job)
        done(route)
      }
      const waits = router.wait?.(job, now, end) ?? false
      if (!waits && router.wait !== undefined) refused(job)
      return waits
    },
    wake(now) {
      at = now
      router.wake?.(now)
    },
  }
  return new Proxy(router, {
    get(target, name) {
      const own: unknown = Reflect.get(watched, name)
      if (own !== undefined) return own
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
