import { expect, it } from 'vitest'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import type { Refusal } from '../../../src/core/contract/refusal.ts'
import { CurrentRoutes } from '../../../src/origin/current-routes.ts'
import { placeOnPool } from '../../../src/origin/placement/place-on-pool.ts'
import type { PlaceResult } from '../../../src/origin/placement/place-step.ts'
import type { Pass } from '../../../src/origin/placement/placement-passes.ts'
import { WaitingRequests } from '../../../src/origin/placement/waiting-requests.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import type { AdmitResult, PoolPort } from '../../../src/ports/pool.ts'
import type { Timers } from '../../../src/ports/timers.ts'
import { ScriptedForwarder } from '../../kit/scripted-forwarder.ts'

/** Longest pause between two questions, ms; limits of waits are longer. */
const PAUSE_MS = 1_000

/** Pauses end in the next turn, limits never. */
const timers: Timers = {
  set(delayMs, callback) {
    if (delayMs <= PAUSE_MS) setImmediate(callback)
    return { cancel: () => undefined }
  },
}

const QUEUE = { maxRequests: 4, maxWaitMs: 1_000, noEngineWaitMs: 60_000 }
const refusal = { reason: 'engines_unavailable', detail: '1 avoided', retryAfterMs: 1_000 } as const

/** A gateway that knows the engine `a`, in front of a pool that chooses `later`. */
class LateGateway {
  readonly forwarder = new ScriptedForwarder({})
  readonly currentRoutes = new CurrentRoutes()
  readonly released: string[] = []
  readonly #queue: typeof QUEUE

  constructor(changes: Partial<typeof QUEUE> = {}) {
    this.#queue = { ...QUEUE, ...changes }
  }

  route(engines: readonly string[]): PoolRoute {
    const route = this.forwarder.route('paris', engines)
    return { ...route, pool: { ...route.pool, cost: null, wake: 'off', queue: this.#queue } } as unknown as PoolRoute
  }

  get placed(): AdmitResult {
    const lease = {
      legDone: async () => undefined,
      firstToken: async () => undefined,
      progress: async () => undefined,
      renew: async () => undefined,
      release: async ({ result }: Outcome) => void this.released.push(result),
    }
    const placement = { kind: 'whole', engine: 'later', runnersUp: [] } as const
    return { lease, placement, policy: 'first', predictedTtftMs: null }
  }

  async place(kind: 'queue' | 'one_cluster', pool: Partial<PoolPort>): Promise<PlaceResult> {
    const ports = { ...this.forwarder.ports, timers, pool: () => pool as PoolPort }
    const route = this.route(['a'])
    const waits = kind === 'queue'
    const asks = { isLastResort: true }
    const pass: Pass = { kind, routes: [route], asks, waits, isChosen: false, notes: [], mayWait: [] }
    const { currentRoutes } = this
    const avoid = new Map<string, string[]>()
    const history = { attempt: 0, skipsRetryBudget: false, failedLegs: [], avoid, beyondContextTokens: null }
    const { digests } = this.forwarder
    const context = {
      ports,
      digests,
      stages: new StageTimer({}),
      stepsOf: () => ({ place: placeOnPool }),
      currentRoutes,
    }
    const exchange = this.forwarder.exchange([route], { waitingRequests: new WaitingRequests() })
    return placeOnPool(pass, { exchange, context, history, second: undefined }, route)
  }
}

it('a request that waits asks again until the engine that the pool chooses is known here, and for others meanwhile', async () => {
  const gateway = new LateGateway()
  const avoided: Admission['avoid'][] = []
  const placed = await gateway.place('queue', {
    queue: {
      async wait({ avoid }) {
        avoided.push(avoid)
        if (!avoid.includes('later')) return gateway.placed
        gateway.currentRoutes.adopt([gateway.route(['a', 'later'])])
        return { refusal }
      },
      leave: async () => undefined,
    },
  })
  expect(placed).toMatchObject({ engine: { id: 'later' } })
  expect(avoided).toEqual([[], [], ['later'], []])
  expect(gateway.released).toEqual(['abandoned', 'abandoned'])
})

it.each([
  [60_000, true],
  [0, undefined],
])(
  'a request that finds only an engine that is unknown here may wait for it if it may wait for engines: %i ms',
  async (noEngineWaitMs, mayWait) => {
    const gateway = new LateGateway({ noEngineWaitMs })
    const answer = await gateway.place('one_cluster', {
      admit: async ({ avoid }) => (avoid.includes('later') ? { refusal } : gateway.placed),
    })
    expect(answer).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
    expect((answer as { readonly refusal: Refusal }).refusal.mayWait).toBe(mayWait)
  },
)
