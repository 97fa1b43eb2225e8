import { expect, it } from 'vitest'
import { answerGroupQuery } from '../../src/api/group-queries.ts'
import type { Placement } from '../../src/core/contract/placement.ts'
import { LeaseKeeper } from '../../src/origin/lease-keeper.ts'
import { runningBookings } from '../../src/origin/pause/running-bookings.ts'
import type { Origin } from '../../src/ports/origin.ts'
import { admission, outcome } from '../kit/pool-fixtures.ts'
import { defaultTimers } from '../../src/timers.ts'

const origin = {} as Origin

function running(placement: Placement): { readonly booking: LeaseKeeper; readonly ended: string[] } {
  const booking = new LeaseKeeper(
    {
      ports: { now: () => 0 },
      pool: {} as never,
      admission: admission(),
      leaseMs: 60_000,
      timers: defaultTimers,
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      runsIn: { cluster: 'c', pool: 'm', bookings: runningBookings(origin) },
    },
    placement,
    null,
  )
  return { booking, ended: [] }
}

const at = (engine: string): Placement => ({ kind: 'whole', engine, runnersUp: [] })

/** As another thread asks for it. */
const fence = (engines: readonly string[], pool = 'm') =>
  answerGroupQuery({ ports: { origin } } as never, { about: 'fence', fenced: { cluster: 'c', pool, engines } })

it('a thread ends the answers of the engines that another one names, each rank of a server included', async () => {
  const [a, rank, split, other] = [
    running(at('a')),
    running(at('b/1')),
    running({ kind: 'split', prefill: 'a', decode: 'c', runnersUp: [] }),
    running(at('d')),
  ]
  for (const { booking, ended } of [a, rank, split, other]) booking.onFence(() => ended.push('ended'))
  expect(await fence(['a', 'b'], 'another pool')).toBe(0)
  expect(await fence(['a', 'b'])).toBe(3)
  expect([a, rank, split, other].map(({ ended }) => ended.length)).toEqual([1, 1, 1, 0])
  for (const { booking } of [a, rank, split, other]) void booking.release(outcome())
  expect(await fence(['a', 'b', 'd'])).toBe(0)
})

it('a request whose earlier leg was ended does not begin its last one', async () => {
  const { booking, ended } = running(at('a'))
  await fence(['a'])
  booking.onFence(() => ended.push('ended'))
  expect(ended).toEqual(['ended'])
  void booking.release(outcome())
})
