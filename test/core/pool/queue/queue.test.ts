/** Requests that wait for room, in the state of a pool. */
import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../../src/core/contract/pool-config.ts'
import type { Usage } from '../../../../src/core/contract/outcome.ts'
import { bookingKey } from '../../../../src/core/pool/bookings.ts'
import type { AdmissionResult } from '../../../../src/core/pool/admission-result.ts'
import { admission, engine, outcome, pool, probe } from '../../../kit/pool-fixtures.ts'

const MAX_WAIT_MS = 2_000
const START = 1_800_000_000_000
const HOUR_MS = 3_600_000

/** A pool with one place, which is taken. */
class World {
  readonly state = new PoolState({ random: () => 0.5, epoch: 'e' })
  readonly order: string[] = []
  now = START
  #running: Admission

  constructor(changes: Partial<PoolConfig> = {}) {
    const queue = { maxRequests: 10_000, maxWaitMs: MAX_WAIT_MS }
    this.state.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })], queue, ...changes }), this.now)
    this.#running = admission()
    this.state.admit(this.#running, this.now)
  }

  wait(changes: Partial<Admission> = {}): { answer: AdmissionResult | null } {
    const request = admission(changes)
    const wait: { answer: AdmissionResult | null } = { answer: null }
    const done = (answer: AdmissionResult): void => {
      wait.answer = answer
      if ('refusal' in answer) return
      this.order.push(request.tenant)
      this.#running = request
    }
    this.state.wait(request, { now: this.now, waitedMs: 0, done })
    return wait
  }

  /** Ends the running request, whose place goes to the next one. */
  end(usage: Partial<Usage> | null = {}): void {
    const known = { promptTokens: this.#running.promptTokens, completionTokens: 256, cachedTokens: 0 }
    const ended = outcome({ usage: usage === null ? null : { ...known, ...usage } })
    this.state.release(bookingKey(this.#running), ended, this.now)
  }

  /** The host wakes the queue at this time. */
  wakeAt(now: number): void {
    this.now = now
    this.state.wake(now)
  }
}

describe('a clock that is set', () => {
  it.each([
    ['forward by an hour', HOUR_MS],
    ['back by an hour', -HOUR_MS],
  ])('%s ends no wait, and lengthens none', (_name, stepMs) => {
    const world = new World()
    const waits = Array.from({ length: 100 }, () => world.wait())
    world.wakeAt(START + 500)
    world.wakeAt(START + 500 + stepMs)
    expect(waits.filter(({ answer }) => answer !== null)).toHaveLength(0)
    expect(world.state.digest(world.now).queue!.oldestMs).toBeLessThan(MAX_WAIT_MS)
    for (let at = 0; at < 4; at++) world.wakeAt(world.now + 500)
    expect(waits.filter(({ answer }) => answer === null)).toHaveLength(0)
    expect(world.state.waiting).toBe(0)
  })

  it('while nobody waits counts for nobody', () => {
    const world = new World()
    world.wait()
    world.end()
    world.now += HOUR_MS
    const next = world.wait()
    world.wakeAt(world.now + MAX_WAIT_MS / 4)
    expect(next.answer).toBeNull()
  })
})

it('objectives that a reload shortens end no wait, and refuse no one who then has an idle engine', () => {
  const slo = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: 100 }
  const world = new World({ slo })
  const waits = [world.wait(), world.wait()]
  world.wakeAt(START + 900)
  world.state.configure(2, { ...world.state.pool!, slo: { ...slo, ttftMs: 100 } }, world.now)
  world.wakeAt(START + 1_000)
  expect(waits.map(({ answer }) => answer)).toEqual([null, null])
  world.end()
  world.end()
  expect(waits.map(({ answer }) => answer !== null && 'placement' in answer)).toEqual([true, true])
})

describe('a request whose first token can only be in time without a wait', () => {
  const SLO = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: null }
  /** By now a prefill is known to take 1 ms per token. */
  function learned(): World {
    const world = new World({ slo: SLO, engines: [engine('a', { maxInFlight: 2 })] })
    world.end()
    for (let at = 1; at <= 20; at++) {
      const request = admission({ promptTokens: 100 * at })
      world.state.admit(request, world.now)
      world.now += 100 * at
      world.state.firstToken(bookingKey(request), { ttft: 100 * at }, world.now)
      world.state.release(bookingKey(request), outcome(), world.now)
    }
    for (let at = 0; at < 2; at++) world.state.admit(admission(), world.now)
    return world
  }
  const refusal = (world: World, promptTokens: number) => {
    const answer = world.state.admit(admission({ promptTokens }), world.now)
    return 'refusal' in answer ? answer.refusal : null
  }

  it('a request whose first token can only be in time without a wait is refused at once, also while others wait', () => {
    const world = learned()
    expect(refusal(world, 1_000)).toMatchObject({ reason: 'engines_full', mayWait: true })
    expect(refusal(world, 20_000)).toMatchObject({ reason: 'engines_full' })
    expect(refusal(world, 20_000)!.mayWait).toBeUndefined()
    world.wait({ promptTokens: 1_000 })
    expect(refusal(world, 1_000)).toMatchObject({ limit: 'queue', mayWait: true })
    expect(refusal(world, 20_000)).toMatchObject({ reason: 'engines_full' })
  })

  it('a request whose first token can only be in time without a wait waits until it would be late', () => {
    const world = learned()
    const [short, long] = [world.wait({ promptTokens: 1_000 }), world.wait({ promptTokens: 4_000 })]
    world.wakeAt(world.now + 500)
    expect([short.answer, long.answer]).toEqual([null, null])
    world.wakeAt(world.now + 750)
    expect(long.answer).toMatchObject({ refusal: { reason: 'engines_full' } })
    expect(short.answer).toBeNull()
  })
})

describe('the work that a key is charged', () => {
  it('the work that a key is charged is what its responses took, not what was expected when they came', () => {
    const world = new World()
    for (let at = 0; at < 40; at++) {
      world.wait({ tenant: 'cached', promptTokens: 10_000 })
      world.wait({ tenant: 'cold', promptTokens: 10_000 })
    }
    world.end()
    while (world.order.length < 40) world.end({ cachedTokens: world.order.at(-1) === 'cached' ? 8_000 : 0 })
    const cached = world.order.filter((tenant) => tenant === 'cached').length
    // 2,512 tokens each, against 10,512.
    expect(cached).toBeGreaterThanOrEqual(31)
    expect(cached).toBeLessThanOrEqual(33)
  })

  it('the work that a key is charged is the expected one if a response has no usage', () => {
    const world = new World()
    for (let at = 0; at < 20; at++) for (const tenant of ['a', 'b']) world.wait({ tenant, promptTokens: 1_000 })
    for (let at = 0; at < 21; at++) world.end(null)
    expect(Math.abs(world.order.filter((tenant) => tenant === 'a').length - 10)).toBeLessThanOrEqual(1)
  })
})

describe('more requests than one wake-up tries', () => {
  const COUNT = 12
  const ENGINE_WAIT_MS = 20_000
  const queue = { maxRequests: 100, maxWaitMs: MAX_WAIT_MS, noEngineWaitMs: ENGINE_WAIT_MS }
  const reasons = (waits: readonly { readonly answer: AdmissionResult | null }[]) => [
    ...new Set(waits.map(({ answer }) => (answer !== null && 'refusal' in answer ? answer.refusal.reason : answer))),
  ]
  const health = (world: World, healthy: boolean) =>
    world.state.observe([probe('a', world.now, { healthy })], world.now)

  /** The host sees its clock advance in steps. */
  function pass(world: World, ms: number): void {
    for (let passed = 0; passed < ms; passed += 500) world.wakeAt(world.now + 500)
  }

  it('more requests than one wake-up tries wait on when the engine that they wait for room at goes away', () => {
    const world = new World({ queue })
    const waits = Array.from({ length: COUNT }, () => world.wait())
    pass(world, 1_000)
    health(world, false)
    pass(world, MAX_WAIT_MS + 1_000)
    expect(reasons(waits)).toEqual([null])
    health(world, true)
    for (let ended = 0; ended < COUNT; ended++) world.end()
    expect(waits.every(({ answer }) => answer !== null && 'placement' in answer)).toBe(true)
  })

  it('more requests than one wake-up tries get the reason when no engine has come', () => {
    const world = new World({ queue })
    health(world, false)
    const waits = Array.from({ length: COUNT }, () => world.wait())
    pass(world, ENGINE_WAIT_MS - 500)
    expect(reasons(waits)).toEqual([null])
    pass(world, 500)
    expect(reasons(waits)).toEqual(['engines_unavailable'])
  })

  it('more requests than one wake-up tries get the reason when the pool loses its engines and its queue', () => {
    const world = new World({ queue })
    const waits = Array.from({ length: COUNT }, () => world.wait())
    world.state.configure(2, { ...world.state.pool!, engines: [], queue: null }, world.now)
    expect(reasons(waits)).toEqual(['no_engine'])
  })

  it('more requests than one wake-up tries wait for a returned engine as long as others wait for room', () => {
    const world = new World({ queue })
    health(world, false)
    const waits = Array.from({ length: COUNT }, () => world.wait())
    pass(world, ENGINE_WAIT_MS - 500)
    health(world, true)
    pass(world, MAX_WAIT_MS - 500)
    expect(reasons(waits)).toEqual([null])
    pass(world, 1_000)
    expect(reasons(waits).every((reason) => reason === 'engines_full' || reason === 'overloaded')).toBe(true)
  })
})

describe('a request that asks again, because the pool state has lost its memory', () => {
  const queue = { maxRequests: 100, maxWaitMs: MAX_WAIT_MS, noEngineWaitMs: 20_000 }

  function again(world: World, waitedMs: number): { answer: AdmissionResult | null } {
    const wait: { answer: AdmissionResult | null } = { answer: null }
    world.state.wait(admission(), { now: world.now, waitedMs, done: (answer) => (wait.answer = answer) })
    return wait
  }

  it('a request that asks again after a long wait for an engine gets it if it is there', () => {
    const world = new World({ queue })
    world.end()
    expect(again(world, 15_000).answer).toHaveProperty('placement')
  })

  it('a request that asks again after a long wait for an engine gets the usual time for room', () => {
    const world = new World({ queue })
    const wait = again(world, 15_000)
    world.wakeAt(world.now + 500)
    expect(wait.answer).toBeNull()
    world.end()
    expect(wait.answer).toHaveProperty('placement')
  })

  it('a request that asks again while no engine is there waits for the rest of its time', () => {
    const world = new World({ queue, engines: [] })
    const wait = again(world, 19_000)
    world.wakeAt(world.now + 500)
    expect(wait.answer).toBeNull()
    world.wakeAt(world.now + 500)
    expect(wait.answer).toMatchObject({ refusal: { reason: 'no_engine' } })
  })
})
