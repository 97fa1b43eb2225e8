import { describe, expect, it } from 'vitest'
import type { Condition } from '../../../src/core/contract/pool-digest.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import { admission, failed, outcome, probe, stats } from '../../kit/pool-fixtures.ts'
import { PoolInTime, TTFT_MS } from '../../kit/pool-in-time.ts'

/** Asks for a second engine beside the first attempt, at the engine `a`. */
const RESCUE = { attempt: 1, second: { kind: 'rescue', from: 'a', attempt: 0 }, avoid: ['a'] } as const

describe('a pool with an engine that does not move', () => {
  const withStopped = (names?: readonly string[], changes?: Partial<PoolConfig>): PoolInTime => {
    const site = new PoolInTime(names, changes)
    site.learn()
    site.stopped.add('a')
    for (let at = 0; at < 3; at++) site.send()
    return site
  }

  it('a pool with a stuck engine places nothing there three seconds after the output was due', () => {
    const site = withStopped()
    site.pass(TTFT_MS + 3_000)
    expect(site.conditions()).toEqual({ a: 'wedged', b: 'well', c: 'well' })
    for (let at = 0; at < 30; at++) expect(site.send()).not.toBe('a')
  })

  it('a pool with a stuck engine names the keys and models that wait there, and none at engines that are well', () => {
    const site = withStopped()
    for (const tenant of ['x', 'y']) for (let at = 0; at < 3; at++) site.send({ tenant })
    site.pass(TTFT_MS + 3_000)
    const [stuck, well] = site.state.digest(site.now).engines
    const keyNames = ['team-a', 'x', 'y']
    expect(stuck!.hurt).toMatchObject({ requests: 3, keys: 3, keyNames, models: 1, modelNames: ['qwen'] })
    expect(well!.hurt).toBeUndefined()
  })

  it('a pool with a stuck engine names at most five of the keys that wait there, those with most requests first', () => {
    const site = withStopped(['a'])
    for (const [tenant, requests] of [
      ['one', 1],
      ['three', 3],
      ['two', 2],
      ['k4', 1],
      ['k5', 1],
      ['k6', 1],
    ] as const)
      for (let at = 0; at < requests; at++) site.send({ tenant })
    site.pass(TTFT_MS + 3_000)
    const { hurt } = site.state.digest(site.now).engines[0]!
    expect(hurt).toMatchObject({ requests: 12, keys: 7, keyNames: ['team-a', 'three', 'two', 'one', 'k4'] })
  })

  it('a pool with a stuck engine names the keys whose clients gave up since it was well, and not those of before', () => {
    const site = withStopped(['a'])
    site.send({ tenant: 'early' })
    site.leaveAll()
    site.send({ tenant: 'late' })
    site.pass(TTFT_MS + 3_000)
    const hurt = () => site.state.digest(site.now).engines[0]!.hurt!
    expect(hurt().gaveUp).toMatchObject({ requests: 0, keyNames: [] })
    site.leaveAll()
    expect(hurt()).toMatchObject({
      requests: 0,
      gaveUp: { requests: 1, keys: 1, keyNames: ['late'], modelNames: ['qwen'] },
    })
  })

  it('a pool with a stuck engine opens its circuit at a timeout, although it has answered a trial that was sent later', () => {
    const site = withStopped()
    site.stopped.delete('a')
    site.pass(3_000)
    expect(site.conditions()['a']).toBe('well')
    site.timeOutAll()
    expect(site.state.circuitOf('a')).toMatchObject({ state: 'open', isHung: true })
  })

  it('a pool with a stuck engine still finds it if its clients left after the output was due', () => {
    const site = withStopped()
    site.pass(2_000, 2_000)
    site.leaveAll()
    site.pass(2_000)
    expect(site.conditions()['a']).toBe('wedged')
  })

  it('a pool with a stuck engine moves its requests to another engine, without the budget of retries, only once it is wedged', () => {
    const site = withStopped(undefined, { retry: { share: 0, minPerS: 0 } })
    expect(site.send(RESCUE)).toBeNull()
    site.pass(4_000)
    expect(['b', 'c']).toContain(site.send(RESCUE))
    expect(site.state.digest(site.now).engines.find(({ id }) => id === 'a')?.rescuedTotal).toBe(1)
  })

  it('a pool with a stuck engine moves a request that is lost at an engine that answers trials, within the budget of retries', () => {
    const lostAt = (retry: PoolConfig['retry']): [PoolInTime, Admission] => {
      const site = new PoolInTime(undefined, { retry })
      site.learn()
      const first = admission({ avoid: ['b', 'c'] })
      site.state.admit(first, site.now)
      return [site, { ...first, ...RESCUE, isLastResort: true }]
    }
    const [site, rescue] = lostAt({ share: 0, minPerS: 1 })
    site.pass(3_000)
    expect(site.state.admit(rescue, site.now)).toMatchObject({ refusal: { reason: 'retry_budget' } })
    site.pass(1_000)
    expect(site.conditions()['a']).toBe('well')
    expect(site.state.admit(rescue, site.now)).toHaveProperty('placement')
    const [poor, refused] = lostAt({ share: 0, minPerS: 0 })
    poor.pass(4_000)
    expect(poor.state.admit(refused, poor.now)).toMatchObject({ refusal: { reason: 'retry_budget' } })
  })

  it('a pool with a stuck engine moves a request whose trial takes long, within the budget of retries', () => {
    const waitingAt = (retry: PoolConfig['retry']): [PoolInTime, Admission] => {
      const site = new PoolInTime(undefined, { retry })
      site.learn()
      site.stopped.add('a')
      // As at a gateway that gets no CPU.
      site.answersTrials = false
      const first = admission({ avoid: ['b', 'c'] })
      site.state.admit(first, site.now)
      return [site, { ...first, ...RESCUE, isLastResort: true }]
    }
    const [site, rescue] = waitingAt({ share: 0, minPerS: 1 })
    site.pass(3_000)
    expect(site.state.admit(rescue, site.now)).toMatchObject({ refusal: { reason: 'retry_budget' } })
    site.pass(1_000)
    expect(site.conditions()['a']).toBe('suspect')
    expect(site.state.admit({ ...rescue, attempt: 3 }, site.now)).toHaveProperty('placement')
    const [poor, refused] = waitingAt({ share: 0, minPerS: 0 })
    poor.pass(4_000)
    expect(poor.state.admit(refused, poor.now)).toMatchObject({ refusal: { reason: 'retry_budget' } })
  })

  it('a pool with a stuck engine moves no request that is in time', () => {
    const site = new PoolInTime()
    site.learn()
    const slow = admission({ promptTokens: 100_000, avoid: ['b', 'c'] })
    site.state.admit(slow, site.now)
    site.pass(4_000)
    const rescue = { ...slow, ...RESCUE, isLastResort: true }
    expect(site.state.admit(rescue, site.now)).toMatchObject({ refusal: { reason: 'retry_budget' } })
  })

  it('a pool with a stuck engine uses it again after a trial that was answered', () => {
    const site = withStopped()
    site.pass(5_000)
    site.stopped.clear()
    site.pass(1_500)
    expect(site.conditions()['a']).toBe('well')
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })

  it('a pool with a stuck engine uses it again within half a second, although a trial that hangs was just sent', () => {
    const site = withStopped()
    site.pass(5_000)
    site.answersTrials = false
    const due: { readonly at: number; readonly sentAt: number; readonly result: 'passed' | 'failed' }[] = []
    const watch = (ms: number, isStopped: boolean): number => {
      let sent = 0
      for (const end = site.now + ms; site.now < end;) {
        site.now += 100
        for (const { at, sentAt, result } of due.splice(0)) {
          if (at > site.now) due.push({ at, sentAt, result })
          else site.state.observe([{ kind: 'trial', engine: 'a', sentAt, result }], site.now)
        }
        for (const { limitMs } of site.state.watch(site.now).trials) {
          const result = isStopped ? 'failed' : 'passed'
          due.push({ at: site.now + (isStopped ? limitMs : 20), sentAt: site.now, result })
          sent += 1
        }
        if (isStopped && sent > 0) return sent
      }
      return sent
    }
    expect(watch(5_000, true)).toBe(1)
    expect(watch(5_000, true)).toBe(1)
    watch(500, false)
    expect(site.conditions()['a']).toBe('well')
  })

  it('a pool with a stuck engine tries it four times a second at first, and once a second later', () => {
    const site = withStopped()
    site.pass(3_000)
    let isPending = false
    const trialsIn = (ms: number): number => {
      let sent = 0
      for (const end = site.now + ms; site.now < end;) {
        site.now += 50
        const { length } = site.state.watch(site.now).trials
        if (length > 0 && !isPending)
          site.state.observe([{ kind: 'trial', engine: 'a', sentAt: site.now, result: 'failed' }], site.now)
        sent += length
      }
      return sent
    }
    expect(trialsIn(10_000)).toBeGreaterThan(30)
    trialsIn(80_000)
    expect(trialsIn(10_000)).toBeLessThanOrEqual(11)
    // At most four wait at the same time.
    isPending = true
    expect(trialsIn(10_000)).toBeLessThanOrEqual(11)
  })

  it('a pool with a stuck engine takes out no more engines than the maximum share, and never the last one', () => {
    const site = withStopped(['a', 'b', 'c', 'd'], {
      circuit: { failures: 3, openMs: 10_000, maxEjectedShare: 0.5, panicShare: 0 },
    })
    for (const id of ['a', 'b', 'c', 'd']) site.stopped.add(id)
    for (let at = 0; at < 8; at++) site.send()
    site.pass(6_000)
    expect(Object.values(site.conditions())).toEqual(['wedged', 'wedged', 'wedged', 'wedged'])
    const used = new Set(Array.from({ length: 12 }, () => site.send()))
    expect(used.size).toBe(2)
    expect(used).not.toContain(null)
  })

  it('a pool with a stuck engine logs when an engine goes down, with its requests, and when it is back', () => {
    const site = new PoolInTime()
    site.learn()
    site.stopped.add('a')
    for (let at = 0; at < 6; at++) site.send({ tenant: `team-${at % 2}` })
    const events: string[] = []
    const pass = (ms: number): void => {
      for (let at = 0; at < ms; at += 100) {
        site.now += 100
        const { trials, events: raised } = site.state.watch(site.now)
        for (const { event, condition, hurt } of raised)
          events.push(`${event} ${condition} ${hurt?.requests ?? ''} ${hurt?.keys ?? ''}`.trim())
        for (const { engine } of trials) {
          const result = site.stopped.has(engine) ? 'failed' : 'passed'
          site.state.observe([{ kind: 'trial', engine, sentAt: site.now, result }], site.now)
        }
      }
    }
    pass(5_000)
    expect(events).toEqual(['engine_down wedged 2 2'])
    site.stopped.clear()
    pass(3_000)
    expect(events).toEqual(['engine_down wedged 2 2', 'engine_up wedged'])
  })
})

describe('a pool with an engine whose streams stop, while first tokens of new requests come', () => {
  const withStreams = (): PoolInTime => {
    const site = new PoolInTime()
    for (let at = 0; at < 30; at++) {
      const key = site.begin(['a', 'b', 'c'][at % 3]!)
      site.pass(1_000)
      site.state.release(
        key,
        outcome({ usage: { promptTokens: 640, completionTokens: 40, cachedTokens: 0 } }),
        site.now,
      )
    }
    return site
  }
  /** New streams on `engine`, until `ms` have passed. */
  const streamsFor = (site: PoolInTime, engine: string, ms: number): string[] => {
    const keys: string[] = []
    for (const end = site.now + ms; site.now < end;) {
      if (site.conditions()[engine] !== 'wedged') keys.push(site.begin(engine))
      site.pass(400)
    }
    return keys
  }

  it('a pool with stopped streams finds the engine once they are overdue and a trial failed', () => {
    const site = withStreams()
    site.stopped.add('a')
    streamsFor(site, 'a', 6_000)
    expect(site.conditions()).toEqual({ a: 'wedged', b: 'well', c: 'well' })
    for (let at = 0; at < 30; at++) expect(site.send()).not.toBe('a')
  })

  it('a pool with stopped streams keeps the engine out after their clients have left, until a trial is answered', () => {
    const site = withStreams()
    site.stopped.add('a')
    const keys = streamsFor(site, 'a', 6_000)
    for (const key of keys) site.state.release(key, endedAs('client_gone'), site.now)
    site.pass(30_000)
    expect(site.conditions()['a']).toBe('wedged')
    site.stopped.clear()
    site.pass(1_200)
    expect(site.conditions()['a']).toBe('well')
  })

  it('a pool with stopped streams only tries an engine whose streams are held back, once for each silence', () => {
    const site = withStreams()
    const keys = streamsFor(site, 'a', 4_000)
    const trials: number[] = []
    for (let at = 0; at < 300; at++) {
      site.now += 100
      for (const { engine } of site.state.watch(site.now).trials) {
        trials.push(site.now)
        site.state.observe([{ kind: 'trial', engine, sentAt: site.now, result: 'passed' }], site.now)
      }
      expect(site.conditions()['a']).not.toBe('wedged')
    }
    expect(trials.length).toBeLessThanOrEqual(2)
    for (const key of keys) site.state.release(key, endedAs('client_gone'), site.now)
  })

  it('a pool with stopped streams judges no streams whose output is not reported', () => {
    const site = withStreams()
    site.stopped.add('a')
    for (let at = 0; at < 3; at++) site.begin('a', { reportsOutput: false })
    site.pass(30_000)
    expect(site.conditions()['a']).toBe('well')
  })
})

describe('a pool whose engines move', () => {
  it('a pool whose engines move ejects none for clients that abort everything', () => {
    const site = new PoolInTime()
    site.learn()
    for (let at = 0; at < 200; at++) {
      const admitted = site.state.admit(admission({ promptTokens: 4_000, tenant: 'aborting' }), site.now)
      site.pass(30, 30)
      if ('key' in admitted) site.state.release(admitted.key, endedAs('client_gone'), site.now)
    }
    site.pass(10_000)
    expect(Object.values(site.conditions())).toEqual(['well', 'well', 'well'])
  })

  it('a pool whose engines move ejects none during a long prefill', () => {
    const site = new PoolInTime()
    site.learn()
    const { state } = site
    const admitted = state.admit(admission({ promptTokens: 200_000 }), site.now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    site.answersTrials = false
    const predictedMs = admitted.predictedTtftMs!
    expect(predictedMs).toBeGreaterThan(5_000)
    site.pass(1.4 * predictedMs)
    expect(Object.values(site.conditions())).toEqual(['well', 'well', 'well'])
  })

  it('a pool whose engines move takes no engine out that was silent and answers the trial', () => {
    const site = new PoolInTime()
    site.learn()
    for (let at = 0; at < 3; at++) site.state.admit(admission(), site.now)
    const seen = new Set<Condition | undefined>()
    for (let at = 0; at < 100; at++) {
      site.pass(100)
      for (const condition of Object.values(site.conditions())) seen.add(condition)
    }
    expect(seen).not.toContain('wedged')
  })

  it('a pool whose engines move ends no wedge because of reports: an engine whose output is stuck may still count requests', () => {
    const site = new PoolInTime()
    site.learn()
    site.stopped.add('a')
    for (let at = 0; at < 3; at++) site.send()
    for (let at = 0; at < 40; at++) {
      site.state.observe([probe('a', site.now, { stats: stats({ running: at }) })], site.now)
      site.pass(100)
    }
    expect(site.conditions()['a']).toBe('wedged')
  })
})

describe('the circuit of a faulty engine', () => {
  const withFault = (): PoolInTime => {
    const site = new PoolInTime()
    site.learn()
    for (let at = 0; at < 9; at++) {
      const admitted = site.state.admit(admission(), site.now)
      if ('refusal' in admitted) continue
      const isFaulty = servingEngine(admitted.placement) === 'a'
      site.state.release(
        admitted.key,
        isFaulty ? { ...failed, failure: 'status_5xx', status: 500 } : outcome(),
        site.now,
      )
    }
    return site
  }

  it('the circuit of a faulty engine gets no requests as trials while the gateway’s own trials fail', () => {
    const site = withFault()
    site.stopped.add('a')
    for (let at = 0; at < 300; at++) {
      site.pass(100)
      expect(site.send()).not.toBe('a')
    }
    expect(site.conditions()['a']).toBe('faulty')
  })

  it('the circuit of a faulty engine half-opens within two seconds of the first good trial', () => {
    const site = withFault()
    site.stopped.add('a')
    site.pass(8_000)
    site.stopped.clear()
    site.pass(1_500)
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })

  it('the circuit of a faulty engine still gets requests as trials if the gateway makes none', () => {
    const site = withFault()
    site.answersTrials = false
    site.pass(11_000)
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })
})
