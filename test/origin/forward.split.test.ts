/** The whole path of a staged request, with engines that fail on request and the real ledger. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/failure.ts'
import { ENGINES, SplitForwarder, type EngineId, type Manner } from '../kit/split-forwarder.ts'

const manners: readonly Manner[] = ['ok', 'connect', 'reset', 'first_byte_timeout', 500, 503, 302, 400]
const images = ['a', 'b', 'c']

const mannersOf = (kinds: readonly Manner[]) =>
  fc.record(
    Object.fromEntries(ENGINES.map((id) => [id, fc.constantFrom(...kinds)])) as Record<EngineId, fc.Arbitrary<Manner>>,
  )

describe('a staged request over engines that fail at will', () => {
  it('a staged request is served as long as a decode engine works, and leaves no booking', async () => {
    await fc.assert(
      fc.asyncProperty(mannersOf(manners.filter((one) => one !== 400)), async (wanted) => {
        const world = new SplitForwarder(wanted)
        const end = await world.run(images)
        const works = (['d0', 'd1'] as const).filter((id) => wanted[id] === 'ok')
        if (works.length === 0) expect(end).toBeInstanceOf(Failure)
        else {
          expect((end as Response).status).toBe(200)
          expect(works).toContain((end as Response).headers.get('x-firstlight-engine'))
        }
        expect(await world.held()).toBe(0)
        // A failed engine gets no further request, except for items that were in progress at the same time.
        const times = (id: EngineId): number =>
          wanted[id] === 'ok' ? 0 : world.sent.filter((one) => one === id).length
        for (const id of ['p0', 'p1'] as const) expect(times(id)).toBeLessThanOrEqual(1)
        // The last decode engine gets a second request if another engine's blocks may have caused the failure.
        const decodes = [times('d0'), times('d1')].sort()
        expect(decodes[0]).toBeLessThanOrEqual(1)
        expect(decodes[1]).toBeLessThanOrEqual(typeof wanted.d0 === 'number' || typeof wanted.d1 === 'number' ? 2 : 1)
      }),
      { numRuns: 150 },
    )
  })

  it('a staged request leaves no booking if its client disconnects at any time, or an engine refuses it', async () => {
    await fc.assert(
      fc.asyncProperty(mannersOf(manners), fc.integer({ min: 1, max: 8 }), async (wanted, leavesAt) => {
        const world = new SplitForwarder(wanted, leavesAt)
        const end = await world.run(images)
        if (world.client.signal.aborted) {
          expect((end as Failure).reason).toBe('client_gone')
          expect(world.sent.length).toBe(leavesAt)
        }
        expect(await world.held()).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})

it('a prefill engine has no booking left while the decode engine works', async () => {
  let answer = (): void => {}
  const world = new SplitForwarder({}, 0, ['p0', 'd0'])
  world.decoding = new Promise((resolve) => (answer = resolve))
  const response = world.run()
  while (!world.sent.includes('d0')) await new Promise((turn) => setTimeout(turn, 0))
  const engines = new Map((await world.engines()).map((engine) => [engine.id, engine]))
  expect(engines.get('p0')).toMatchObject({ requests: 0, queuedPrefillS: 0 })
  expect(engines.get('d0')).toMatchObject({ requests: 1 })
  answer()
  await response
  expect(await world.held()).toBe(0)
})

describe('a prefill engine that crashes with held blocks', () => {
  /** All prefills ran on `p0` before it stops. */
  async function orphans(world: SplitForwarder, requests: number): Promise<(Response | Failure)[]> {
    let go = (): void => {}
    world.decoding = new Promise((resolve) => (go = resolve))
    const runs = Array.from({ length: requests }, () => world.run())
    while (world.sent.filter((id) => id.startsWith('d')).length < requests)
      await new Promise((turn) => setTimeout(turn, 0))
    world.dead.add('p0')
    go()
    return Promise.all(runs)
  }

  for (const engines of [
    ['p0', 'd0'],
    ['p0', 'd0', 'd1'],
    ['p0', 'p1', 'd0'],
    ['p0', 'p1', 'd0', 'd1'],
  ] as const) {
    it(`a prefill engine that crashes is to blame for it, and no decode engine: with ${engines.join(', ')} every request is served`, async () => {
      const world = new SplitForwarder({}, 0, engines)
      const ends = await orphans(world, 12)
      expect(ends.map((end) => (end instanceof Failure ? end.reason : end.status))).toEqual(Array(12).fill(200))
      const figures = await world.engines()
      for (const { id, circuit, failuresTotal } of figures)
        expect([id, circuit, failuresTotal > 0]).toEqual([id, id === 'p0' ? 'open' : 'closed', id === 'p0'])
      expect(await world.held()).toBe(0)
    })
  }

  it('a prefill engine that crashes is not blamed while it is alive: then the decode engine failed', async () => {
    const world = new SplitForwarder({ d0: 500 }, 0, ['p0', 'd0', 'd1'])
    for (let at = 0; at < 8; at++)
      expect(((await world.run()) as Response).headers.get('x-firstlight-engine')).toBe('d1')
    const engines = await world.engines()
    expect(engines.map(({ id, circuit }) => [id, circuit])).toEqual([
      ['p0', 'closed'],
      ['d0', 'open'],
      ['d1', 'closed'],
    ])
    expect(await world.held()).toBe(0)
  })
})
