import { expect, it } from 'vitest'
import type { OpenRace } from '../../../src/origin/race/race.ts'
import { rescue } from '../../../src/origin/race/rescue.ts'
import { turns } from '../../wait.ts'

/** A rescue whose timers and question the test ends. */
function openRescue() {
  const rings: (() => void)[] = []
  const question = Promise.withResolvers<void>()
  const timers = {
    set: (_: number, ring: () => void) => {
      rings.push(ring)
      return { cancel: () => {} }
    },
  }
  const attempt = { exchange: { scope: {} }, ports: { timers }, placed: { predictedTtftMs: 100 } }
  const race = { attempt, isOpen: true, askSecond: () => question.promise } as unknown as OpenRace
  return { trigger: rescue(race), rings, question }
}

it('a rescue asks again if no second engine was booked', async () => {
  const { rings, question } = openRescue()
  rings[0]!()
  question.resolve()
  await turns()
  expect(rings).toHaveLength(2)
})

it('a rescue that ends while it asks does not ask again', async () => {
  const { trigger, rings, question } = openRescue()
  rings[0]!()
  trigger.end()
  question.resolve()
  await turns()
  expect(rings).toHaveLength(1)
})
