/** The capacity that a pool publishes, against simulated engines in virtual time. */
import { expect, it } from 'vitest'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { engineProfile } from '../../../packages/replay/src/replay/engine-profile.ts'
import { GatewayRouter } from '../../../packages/replay/src/replay/gateway-router.ts'
import { fleetOf, replay } from '../../../packages/replay/src/replay/plan.ts'
import type { RouterKind } from '../../../packages/replay/src/replay/router.ts'
import type { Trace, TraceRequest } from '../../../packages/replay/src/replay/trace.ts'
import type { CapacityError, RoleCapacity } from '../../../src/core/contract/pool-capacity.ts'

const ENGINES = 2
const BLOCK_TOKENS = 64
const SPAN_MS = 150_000
const COLD_MS = 60_000

/** Chats that arrive at random, without common prefixes. */
function chats(perS: number): Trace {
  const random = chance(7)
  const requests: TraceRequest[] = []
  for (let atMs = 0; atMs < SPAN_MS;) {
    atMs -= (1000 / perS) * Math.log(1 - random())
    const promptTokens = Math.round(1_500 * (0.5 + random()))
    const outputTokens = Math.round(200 * (0.5 + random()))
    const blocks = new Uint32Array(2 * Math.floor(promptTokens / BLOCK_TOKENS)).map(() => random() * 2 ** 32)
    requests.push({ atMs, promptTokens, outputTokens, blocks, session: null, chain: null, thinkMs: 0 })
  }
  return { name: 'chats', blockTokens: BLOCK_TOKENS, requests }
}

interface Figures {
  /** Of the requests after the first minute. */
  readonly refusedShare: number
  /** At the last request. */
  readonly capacity: RoleCapacity
  /** After the last request. */
  readonly error: CapacityError | undefined
}

function serve(perS: number): Figures {
  const trace = chats(perS)
  let state: GatewayRouter['state'] | null = null
  const router: RouterKind = {
    name: 'predicted',
    doc: '',
    source: '',
    create: (context) => {
      const slo = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: 50 }
      const gateway = new GatewayRouter({ name: 'predicted', policy: { name: 'predicted', options: {} }, slo }, context)
      state = gateway.state
      return gateway
    },
  }
  const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const fleet = fleetOf(ENGINES, { kind: 'vllm', profile: engineProfile('h100-8b') })
  const { jobs } = replay(trace, fleet, router, pace)
  const counted = jobs.filter(({ request }) => request.atMs > COLD_MS)
  const { capacity, capacityError } = state!.digest(trace.requests.at(-1)!.atMs)
  return {
    refusedShare: counted.filter(({ endedAt }) => endedAt < 0).length / counted.length,
    capacity: capacity![0]!,
    error: capacityError,
  }
}

it('the capacity that a pool publishes at a quarter of its load is where refusals begin', () => {
  const { capacity } = serve(2)
  const total = capacity.requestsPerS + capacity.spareRequestsPerS!
  expect(capacity.replicas).toBe(1)
  const below = serve(0.85 * total)
  expect(below.refusedShare).toBeLessThan(0.01)
  const { refusedShare, capacity: over, error } = serve(1.5 * total)
  expect(refusedShare).toBeGreaterThan(0.1)
  // With as many engines as it asks for, each has the load that two can serve.
  expect([over.replicas, over.spareRequestsPerS, over.exhaustionS]).toEqual([
    expect.toSatisfy((n) => n === 3 || n === 4),
    0,
    0,
  ])
  for (const one of [below.error, error]) expect(one).toEqual({ minutes: 2, overstated: 0, understated: 0 })
})
