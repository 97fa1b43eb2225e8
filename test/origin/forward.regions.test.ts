/** Requests that regions refuse. */
import { describe, expect, it } from 'vitest'
import type { PoolRoute } from '../../src/origin/pool-route.ts'
import { Failure } from '../../src/failure.ts'
import { forward } from '../../src/origin/forward.ts'
import { type Meeting, ScriptedForwarder } from '../kit/scripted-forwarder.ts'

const none: Meeting = { status: 503, body: '{"error":{"code":"no_engine_available"}}' }
const full: Meeting = { status: 429, body: '{"error":{"code":"engines_full"}}' }
const round: Meeting = { status: 508 }
const away: Meeting = { fails: 'connect' }

function region(world: ScriptedForwarder, cluster: string): PoolRoute {
  const { targets, ...route } = world.route(cluster, [`${cluster}-x`])
  return { ...route, targets: new Map(Array.from(targets, ([id, target]) => [id, { ...target, kind: 'gateway' }])) }
}

async function ended(
  ...meetings: Meeting[]
): Promise<{ readonly world: ScriptedForwarder; readonly reason: string | null }> {
  const world = new ScriptedForwarder(Object.fromEntries(meetings.map((meeting, at) => [`r${at}-x`, [meeting]])))
  const reason = await forward(
    world.exchange(meetings.map((_, at) => region(world, `r${at}`))),
    world.ports,
    world.digests,
  ).then(
    () => null,
    (error: unknown) => (error as Failure).reason,
  )
  await world.settled()
  return { world, reason }
}

describe('a request that regions refuse', () => {
  it.each<[string, Meeting[], string]>([
    ['none of them has an engine: it is no matter of load', [none, none], 'no_engine'],
    ['one has no engine, and the other is away', [none, away], 'no_engine'],
    ['one has no engine, and the other is full', [none, full], 'engines_full'],
    ['all are full', [full, full], 'engines_full'],
  ])('a request that regions refuse keeps its reason if %s', async (_, meetings, reason) => {
    expect((await ended(...meetings)).reason).toBe(reason)
  })

  it.each<[string, Meeting, boolean]>([
    ['full', full, true],
    ['without an engine', none, true],
    ['away', away, true],
    ['one that leads back', round, true],
    ['one whose engines fail', { status: 502 }, false],
  ])(
    'a request that regions refuse draws on no retry budget elsewhere where the first was refused by who did nothing for it: %s',
    async (_, meeting, moved) => {
      const { world } = await ended(meeting, { status: 200 })
      expect(world.bookings.map(({ engine, admission }) => [engine, admission.moved ?? false])).toEqual([
        ['r0-x', false],
        ['r1-x', moved],
      ])
    },
  )
})
