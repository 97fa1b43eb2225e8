/** Cases 16 to 20 of a study of wedged engines, in virtual time; test/contracts/wedged.ts has them with real engines. */
import { expect, it } from 'vitest'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { predictionErrorMs } from '../../../src/core/pool/condition/owed-tokens.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import { admission, engine, probe, stats } from '../../kit/pool-fixtures.ts'
import { PoolInTime } from '../../kit/pool-in-time.ts'

function learned(...[names, changes]: ConstructorParameters<typeof PoolInTime>): PoolInTime {
  const site = new PoolInTime(names, changes)
  site.learn()
  return site
}

/** Requests that wait at `a`, which stops. */
function stopA(site: PoolInTime): void {
  site.stopped.add('a')
  for (let at = 0; at < 6; at++) site.send({ tenant: `team-${at % 2}` })
}

it('an engine whose core stopped gets no request after its limit, and its event has who is hurt and since when', () => {
  const site = learned()
  const stoppedAt = site.now
  stopA(site)
  site.pass(4_000)
  for (let at = 0; at < 20; at++) expect(site.send()).not.toBe('a')
  const [event, ...more] = site.raised
  expect(more).toEqual([])
  expect(event).toMatchObject({ event: 'engine_down', engine: 'a', condition: 'wedged' })
  expect(event!.hurt).toMatchObject({ requests: 2, keys: 2, key_names: ['team-0', 'team-1'] })
  expect(event!.since).toBeGreaterThan(stoppedAt)
  expect(event!.since).toBeLessThan(stoppedAt + 2_000)
})

it('a prefill of two minutes is no stall, although the counters of its engine stand still', () => {
  const site = learned()
  site.answersTrials = false
  const promptTokens = 1_000_000
  const admitted = site.state.admit(admission({ promptTokens, avoid: ['b', 'c'] }), site.now)
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  expect(admitted.predictedTtftMs).toBeGreaterThan(120_000)
  for (const end = site.now + 120_000; site.now < end;) {
    site.state.observe([probe('a', site.now, { stats: stats({ running: 1 }) })], site.now)
    site.pass(2_000)
    expect(site.conditions()['a']).toBe('well')
  }
})

it('an engine is not down because the gateway was starved and reads its output late', () => {
  const site = learned()
  const waiting = ['a', 'b', 'c'].map((id) => {
    const avoid = ['a', 'b', 'c'].filter((other) => other !== id)
    const admitted = site.state.admit(admission({ avoid }), site.now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    return admitted.key
  })
  // Nothing ran for half a minute; then the engines are looked at before their output is read.
  site.pass(30_000, 30_000)
  for (const key of waiting) site.state.firstToken(key, { ttft: 200 }, site.now)
  site.pass(1_000)
  expect(site.raised).toEqual([])
  expect(Object.values(site.conditions())).toEqual(['well', 'well', 'well'])
})

it('requests that wait at an engine whose health check hangs as well move once they are overdue', () => {
  const site = new PoolInTime(['a', 'b'], { retry: { share: 0, minPerS: 0 } })
  const first = admission({ avoid: ['b'] })
  const admitted = site.state.admit(first, site.now)
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  site.stopped.add('a')
  const rescue = {
    ...first,
    attempt: 1,
    second: { kind: 'rescue', from: 'a', attempt: 0 } as const,
    avoid: ['a'],
    isLastResort: true,
  }
  site.state.observe([probe('a', site.now, { healthy: false, problem: 'first_byte_timeout', stats: null })], site.now)
  site.pass(200)
  expect(site.conditions()['a']).toBe('unreachable')
  expect(site.state.admit(rescue, site.now)).toHaveProperty('refusal')
  site.pass(predictionErrorMs(admitted.predictedTtftMs!, false) + admitted.predictedTtftMs!)
  expect(site.state.admit(rescue, site.now)).toHaveProperty('placement')
})

it('an engine is found wedged although it reports that no request runs', () => {
  const site = learned()
  stopA(site)
  for (let at = 0; at < 40; at++) {
    site.state.observe([probe('a', site.now, { stats: stats({ running: 0, waiting: 0 }) })], site.now)
    site.pass(100)
  }
  expect(site.conditions()['a']).toBe('wedged')
})

it('a pool of which half stops at once is reported as stalled, and keeps more than half of its engines in use', () => {
  const site = learned(['a', 'b', 'c', 'd'], {
    circuit: { failures: 3, openMs: 10_000, maxEjectedShare: 0.25, panicShare: 0 },
  })
  for (const id of ['a', 'b']) site.stopped.add(id)
  for (let at = 0; at < 8; at++) site.send()
  site.pass(6_000)
  expect(site.raised.filter(({ event }) => event === 'pool_stalled')).toMatchObject([{ wedged: 2 }])
  expect(new Set(Array.from({ length: 12 }, () => site.send())).size).toBe(3)
})

it('a stalled rank of a server leaves the streams of the other rank alone', () => {
  const site = new PoolInTime([], { engines: [engine('s', { ranks: { count: 2, first: 0 } })] })
  site.learn()
  const stream = site.state.admit(admission({ avoid: ['s/0'], streams: true, reportsOutput: true }), site.now)
  if ('refusal' in stream) throw new Error(stream.refusal.detail)
  expect(servingEngine(stream.placement)).toBe('s/1')
  site.state.firstToken(stream.key, { ttft: 200 }, site.now + 200)
  site.stopped.add('s/0')
  for (let at = 0; at < 4; at++) site.send({ avoid: ['s/1'] })
  for (let blocks = 1; blocks < 30; blocks++) {
    site.pass(200)
    site.state.progress(stream.key, blocks, site.now)
  }
  expect(site.conditions()).toMatchObject({ 's/0': 'wedged', 's/1': 'well' })
  for (let at = 0; at < 6; at++) expect(site.send()).toBe('s/1')
  expect(site.state.release(stream.key, endedAs('complete'), site.now)).toBe(true)
})
