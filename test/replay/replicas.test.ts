import { describe, expect, it } from 'vitest'
import type { PolicyConfig } from '../../src/core/contract/pool-config.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { type ReplicasOptions, ReplicatedRouter } from '../../packages/replay/src/replay/replicated-router.ts'
import type { RouterContext, RouterKind } from '../../packages/replay/src/replay/router.ts'
import { gatewayKind } from '../../packages/replay/src/replay/routers.ts'
import { longSharedPrefixes } from '../../packages/replay/src/replay/workloads.ts'

const policy: PolicyConfig = { name: 'predicted', options: {} }
const fleet = fleetOf(4, { kind: 'vllm', profile: profileNamed('agentic') })
const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
const prompts = longSharedPrefixes({
  name: 'p',
  requests: 120,
  prefixes: 8,
  seed: 1,
})
/** Ends before the second scrape, so that gateways differ only by their choices. */
const trace = { ...prompts, requests: prompts.requests.map((request, at) => ({ ...request, atMs: at * 20 })) }

function replicas(changes: Partial<ReplicasOptions>): { readonly kind: RouterKind; readonly made: ReplicatedRouter[] } {
  const made: ReplicatedRouter[] = []
  const create = (context: RouterContext): ReplicatedRouter => {
    const router = new ReplicatedRouter(
      { name: 'replicas', policy, replicas: 3, balancing: 'random', balancingSeed: 1, delayMs: 0, ...changes },
      context,
    )
    made.push(router)
    return router
  }
  return { kind: { name: 'replicas', doc: '', source: '', create }, made }
}

const enginesOf = (kind: RouterKind) => replay(trace, fleet, kind, pace).jobs.map(({ engine }) => engine)
const one = enginesOf(gatewayKind('one', policy, { doc: '', source: '' }))

describe('several gateways with the same engines', () => {
  it('choose as one gateway does if they exchange bookings without delay', () => {
    expect(enginesOf(replicas({}).kind)).toEqual(one)
    expect(enginesOf(replicas({ balancing: 'turn', replicas: 8 }).kind)).toEqual(one)
  })

  it('choose differently without an exchange, or with a delay', () => {
    expect(enginesOf(replicas({ delayMs: null }).kind)).not.toEqual(one)
    expect(enginesOf(replicas({ delayMs: 500 }).kind)).not.toEqual(one)
  })

  it.each(['nothing', 'bookings', 'learned', 'prompts'] as const)(
    'several gateways with the same engines serve every request, also when one restarts and keeps %s',
    (knows) => {
      const { jobs, refused } = replay(
        trace,
        fleet,
        replicas({ delayMs: 5, disruption: { kind: 'restarts', knows, at: 60 } }).kind,
        pace,
      )
      expect([jobs.filter(({ endedAt }) => endedAt >= 0).length, refused]).toEqual([120, 0])
    },
  )

  it('several gateways with the same engines have no bookings at the end, even those of a gateway that died', () => {
    for (const upset of [
      undefined,
      { kind: 'restarts', knows: 'bookings', at: 60 },
      { kind: 'dies', lapseMs: 1000, at: 60 },
    ] as const) {
      const { kind, made } = replicas({ delayMs: 5, ...(upset === undefined ? {} : { disruption: upset }) })
      const { spanMs } = replay(trace, fleet, kind, pace)
      made[0]!.scrape(spanMs + 2000)
      expect(made[0]!.bookings).toEqual(upset?.kind === 'dies' ? [0, 0] : [0, 0, 0])
    }
  })
})
