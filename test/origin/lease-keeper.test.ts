import { describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import { endedAs, type Outcome } from '../../src/core/contract/outcome.ts'
import type { Renewal } from '../../src/core/contract/renewal.ts'
import type { Resume } from '../../src/core/contract/resume.ts'
import { LeaseKeeper } from '../../src/origin/lease-keeper.ts'
import type { Timers } from '../../src/ports/timers.ts'
import type { PoolPort } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import { defaultTimers } from '../../src/timers.ts'
import { turns } from '../wait.ts'

const ending: Outcome = { ...endedAs('complete'), status: 200, outputEvents: 3 }
/** Time of the gateway, ms since the epoch. */
let nowMs = 0
const clock = { now: () => nowMs }

const placement = { kind: 'whole', engine: 'a', runnersUp: [] } as const

/** Timers that fire when a test calls them out of `rings`. */
const timersIn = (rings: (() => void)[]): Timers => ({
  set: (_ms, ring) => {
    rings.push(ring)
    return { cancel: () => void rings.splice(rings.indexOf(ring), 1) }
  },
})

/** A booking whose renewals have these results, in order, and the delay of its next renewal. */
function renewing(...results: readonly Renewal[]) {
  const next = { ms: 0, ring: (): void => {} }
  const timers: Timers = {
    set: (ms, ring) => {
      Object.assign(next, { ms, ring })
      return { cancel: () => {} }
    },
  }
  const left = [...results]
  const pool = new FakePool()
  const booking = pool.booking({ ...pool.lease, renew: async () => left.shift() }, timers)
  const renew = async (): Promise<void> => {
    next.ring()
    await turns()
  }
  return { booking, next, renew }
}

/** The booking of a placement in a pool that can resume it. */
function keeperOf(resume: PoolPort['resume'], lease: Lease | null, timers: Timers): LeaseKeeper {
  const call = {
    ports: clock,
    pool: { resume } as Partial<PoolPort> as PoolPort,
    admission: { id: 'x' } as Admission,
    leaseMs: 60_000,
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    timers,
  }
  return new LeaseKeeper(call, placement, lease)
}

/** A pool object that can lose its state, be unreachable, and be slow. */
class FakePool {
  readonly calls: string[] = []
  readonly resumes: Resume[] = []
  knows = true
  reachable = true
  hold: Promise<void> | null = null
  #renewed: (() => void)[] = []

  readonly lease: Lease = this.#lease()

  booking(lease: Lease | null = this.lease, timers: Timers = defaultTimers): LeaseKeeper {
    const resume = async (booking: Resume) => {
      if (!this.reachable) throw new Error('out of reach')
      this.resumes.push(booking)
      this.knows = true
      return this.#lease()
    }
    return keeperOf(resume, lease, timers)
  }

  renewed(): Promise<void> {
    return new Promise((resolve) => this.#renewed.push(resolve))
  }

  #lease(): Lease {
    const say = async (what: string) => {
      await this.hold
      if (!this.reachable || !this.knows) throw new Error('unknown booking')
      this.calls.push(what)
      if (what === 'renew') for (const resolve of this.#renewed.splice(0)) resolve()
    }
    return {
      legDone: (role) => say(`${role} done`),
      firstToken: () => say('first token'),
      progress: (blocks) => say(`progress ${blocks}`),
      renew: () => say('renew'),
      release: (outcome: Outcome) => say(`release ${outcome.result}`),
    }
  }
}

describe('a booking in this process', () => {
  const calls: string[] = []
  const resolved = Promise.resolve()
  const say = (what: string): Promise<void> => {
    if (what.startsWith(fails)) throw new Error('no such booking')
    calls.push(what)
    return resolved
  }
  let fails = 'nothing'
  const lease: Lease = {
    keepsOrder: true,
    legDone: (role) => say(`${role} done`),
    firstToken: () => say('first token'),
    progress: (blocks) => say(`progress ${blocks}`),
    renew: async () => say('renew'),
    release: ({ result }) => say(`release ${result}`),
  }
  const opened = (rings: (() => void)[] = []): LeaseKeeper => {
    calls.length = 0
    const resume = async () => {
      calls.push('resume')
      fails = 'nothing'
      return lease
    }
    return keeperOf(resume, lease, timersIn(rings))
  }

  it('a booking in this process applies every event at once, and leaves nothing pending', () => {
    const booking = opened()
    booking.firstToken({})
    booking.progress(2)
    expect(calls).toEqual(['first token', 'progress 2'])
    expect(booking.release(ending)).toBeNull()
    expect(booking.release({ ...ending, result: 'client_gone' })).toBeNull()
    expect(calls).toEqual(['first token', 'progress 2', 'release complete'])
  })

  it('a booking in this process is on its way until its first token, or its end', () => {
    let arrived = 0
    const [streamed, refused] = [opened(), opened()]
    for (const booking of [streamed, refused]) booking.sent({ end: () => void arrived++ })
    streamed.firstToken({})
    expect(arrived).toBe(1)
    void streamed.release(ending)
    expect(arrived).toBe(1)
    void refused.release({ ...ending, result: 'engine_failed' })
    void refused.release(ending)
    expect(arrived).toBe(2)
  })

  it('a booking in this process is booked again if it was lost, and later events wait for that', async () => {
    const booking = opened()
    fails = 'progress'
    booking.progress(1)
    const released = booking.release(ending)
    expect(calls).toEqual([])
    await released
    expect(calls).toEqual(['resume', 'progress 1', 'release complete'])
  })

  it('a booking in this process is renewed each time the timer fires, and sets no timer after its end', async () => {
    const rings: (() => void)[] = []
    const booking = opened(rings)
    for (const _ of [1, 2]) {
      const [ring] = rings.splice(0)
      ring!()
      await expect.poll(() => calls.at(-1)).toBe('renew')
      calls.length = 0
    }
    await booking.release(ending)
    expect(rings).toEqual([])
  })
})

describe('a booking', () => {
  it('a booking that is made again names the time since its placement, and since its last move', async () => {
    const pool = new FakePool()
    const booking = pool.booking(null)
    nowMs += 90_000
    booking.sendBooking()
    await turns()
    nowMs += 1_000
    booking.moveTo({ ...placement, engine: 'b' }, ending)
    nowMs += 5_000
    await turns()
    expect(pool.resumes).toMatchObject([
      { placement: { engine: 'a' }, ageMs: 90_000 },
      { placement: { engine: 'b' }, ageMs: 5_000 },
    ])
    await booking.release(ending)
  })

  it('a booking sends every event in order and its end exactly once', async () => {
    const pool = new FakePool()
    const booking = pool.booking()
    booking.firstToken({})
    booking.firstToken({})
    booking.progress(1)
    await Promise.all([booking.release(ending), booking.release({ ...ending, result: 'client_gone' })])
    booking.progress(9)
    await booking.release(ending)
    expect(pool.calls).toEqual(['first token', 'progress 1', 'release complete'])
  })

  it('a booking sends of many steps on the way only the last', async () => {
    const pool = new FakePool()
    const { promise, resolve: go } = Promise.withResolvers<void>()
    pool.hold = promise
    const booking = pool.booking()
    booking.firstToken({})
    for (let blocks = 1; blocks <= 50; blocks++) booking.progress(blocks)
    go()
    await booking.release(ending)
    expect(pool.calls).toEqual(['first token', 'progress 50', 'release complete'])
  })

  it('a booking is renewed while it is open, and not after', async () => {
    const pool = new FakePool()
    const rings: (() => void)[] = []
    const booking = pool.booking(pool.lease, timersIn(rings))
    for (const _ of [1, 2]) {
      const renewed = pool.renewed()
      rings.splice(0)[0]!()
      await renewed
      await turns()
    }
    await booking.release(ending)
    expect(rings).toEqual([])
    expect(pool.calls).toEqual(['renew', 'renew', 'release complete'])
  })

  it('a booking is booked again, as far as it had come, when the object forgot it', async () => {
    const pool = new FakePool()
    const booking = pool.booking()
    booking.firstToken({})
    booking.progress(4)
    await Promise.resolve()
    pool.knows = false
    await booking.release(ending)
    expect(pool.resumes.at(-1)).toMatchObject({ placement, firstTokenSeen: true, outputBlocks: 4 })
    expect(pool.calls.at(-1)).toBe('release complete')
  })

  it('a booking outlives an object out of reach, and never fails its request', async () => {
    const pool = new FakePool()
    pool.reachable = false
    const booking = pool.booking()
    booking.firstToken({})
    await booking.release(ending)
    expect(pool.calls).toEqual([])
  })

  it('a booking that was made without the object is sent to it when it is back', async () => {
    const pool = new FakePool()
    const rings: (() => void)[] = []
    const booking = pool.booking(null, timersIn(rings))
    booking.firstToken({})
    const renewed = pool.renewed()
    rings.splice(0)[0]!()
    await renewed
    expect(pool.resumes).toMatchObject([{ firstTokenSeen: true }])
    await booking.release(ending)
    expect(pool.calls.at(-1)).toBe('release complete')
  })

  it('the object never knew ends without a word', async () => {
    const pool = new FakePool()
    const booking = pool.booking(null)
    booking.firstToken({})
    await booking.release(ending)
    expect(pool.calls).toEqual([])
    expect(pool.resumes).toEqual([])
  })
})

describe('a booking that is renewed', () => {
  it('a booking whose engine is paused is renewed sooner, until the engine goes on', async () => {
    const { booking, next, renew } = renewing(true, 'paused', 'paused', true)
    const delays: number[] = []
    for (let at = 0; at < 4; at += 1) {
      await renew()
      delays.push(next.ms)
    }
    expect(delays).toEqual([20_000, 1_000, 1_000, 20_000])
    await booking.release(ending)
  })

  it('a booking that a renewal finds fenced ends its call to the engine', async () => {
    const { booking, renew } = renewing('paused', 'fenced')
    let ends = 0
    booking.onFence(() => (ends += 1))
    await renew()
    expect(ends).toBe(0)
    await renew()
    expect(ends).toBe(1)
    await booking.release(ending)
  })
})
