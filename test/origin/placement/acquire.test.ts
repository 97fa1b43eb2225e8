import { expect, it } from 'vitest'
import type { AcquiredPlacement } from '../../../src/origin/placement/acquired-placement.ts'
import { acquirePlacement } from '../../../src/origin/placement/acquire.ts'
import type { AttemptHistory, PlacementContext, PlaceResult } from '../../../src/origin/placement/place-step.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import { ScriptedForwarder } from '../../kit/scripted-forwarder.ts'

const placedOn = (engine: string): AcquiredPlacement =>
  ({ engine: { id: engine }, notes: [] }) as unknown as AcquiredPlacement
const refused: PlaceResult = { refusal: { reason: 'no_engine', detail: 'x', retryAfterMs: 1 } }

type Answer = PlaceResult | Promise<PlaceResult>

/** Places a request on pools with these results. Returns the result, and the pools that were called. */
function placed(answers: Readonly<Record<string, Answer>>) {
  const world = new ScriptedForwarder({})
  const clusters: string[] = []
  const history: AttemptHistory = {
    attempt: 0,
    skipsRetryBudget: false,
    failedLegs: null,
    avoid: new Map(),
    beyondContextTokens: null,
  }
  const context: PlacementContext = {
    ports: world.ports,
    digests: world.digests,
    stages: new StageTimer({}),
    stepsOf: () => ({
      place: (_pass, _search, route) => {
        clusters.push(route.cluster.id)
        return answers[route.cluster.id]!
      },
    }),
  }
  const exchange = world.exchange(Object.keys(answers).map((cluster) => world.route(cluster, [`${cluster}-x`])))
  return { clusters, result: acquirePlacement(exchange, context, history) }
}

it('a pool that places a request at once costs it no promise', () => {
  expect(placed({ near: placedOn('near-x'), far: placedOn('far-x') })).toMatchObject({
    clusters: ['near'],
    result: { engine: { id: 'near-x' } },
  })
})

it.each<[string, Answer, string]>([
  ['refuses', refused, 'failover=near:no_engine'],
  ['refuses later', Promise.resolve(refused), 'failover=near:no_engine'],
  ['chooses engines that are unknown here', 'unknown_engine', 'failover=near:unknown_engine'],
])('a request that its first pool %s asks each pool once and notes the failover', async (_, first, note) => {
  const { clusters, result } = placed({ near: first, far: placedOn('far-x') })
  expect(await result).toMatchObject({ engine: { id: 'far-x' }, notes: [note] })
  expect(clusters).toEqual(['near', 'far'])
})

it('a request that no pool serves has no placement', async () => {
  expect(await placed({}).result).toEqual({
    refusal: { reason: 'no_engine', detail: 'no cluster serves this model', retryAfterMs: 1_000 },
  })
})
