import { describe, expect, it } from 'vitest'
import type { Condition } from '../../../src/core/contract/pool-digest.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engines, failed, outcome, pool, probe, stats } from '../../kit/pool-fixtures.ts'

const TTFT_MS = 200

/** A pool in virtual time whose engines answer after `TTFT_MS`, until they stop. */
class PoolInTime {
  now = 1_000_000
  readonly state = new PoolState({ random: () => 0.5, epoch: 'e' })
  readonly stopped = new Set<string>()
  /** Names of the events so far. */
  readonly events: string[] = []
  readonly #waiting = new Map<string, string>()
  /** Whether engines that move answer trials. */
  answersTrials = true

  constructor(names: readonly string[] = ['a', 'b', 'c'], changes: Partial<PoolConfig> = {}) {
    const policy = { name: 'round_robin', options: {} }
    this.state.configure(1, pool({ policy, engines: engines(...names), ...changes }), this.now)
  }

  /** Places a request; its engine answers it at once in virtual time, unless it has stopped. */
  send(changes: Partial<Admission> = {}): string | null {
    const admitted = this.state.admit(admission({ isLastResort: true, ...changes }), this.now)
    if ('refusal' in admitted) return null
    const engine = servingEngine(admitted.placement)
    if (this.stopped.has(engine)) {
      this.#waiting.set(admitted.key, engine)
      return engine
    }
    this.state.firstToken(admitted.key, { ttft: TTFT_MS }, this.now + TTFT_MS)
    this.state.release(admitted.key, outcome(), this.now + TTFT_MS + 1)
    return engine
  }

  /** A stream that got its first tokens; its engine sends the rest never. */
  begin(engine: string, changes: Partial<Admission> = {}): string {
    const avoid = ['a', 'b', 'c'].filter((id) => id !== engine)
    const admitted = this.state.admit(
      admission({ isLastResort: true, streams: true, reportsOutput: true, avoid, ...changes }),
      this.now,
    )
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    this.state.firstToken(admitted.key, { ttft: TTFT_MS }, this.now + TTFT_MS)
    return admitted.key
  }

  /** Lets time pass in steps, as hosts watch a pool, and answers its trials. */
  pass(ms: number, stepMs = 100): void {
    for (const end = this.now + ms; this.now < end;) {
      this.now += stepMs
      const { trials, events } = this.state.watch(this.now)
      this.events.push(...events.map(({ event }) => event))
      for (const { engine } of trials) {
        const result = this.stopped.has(engine) ? 'failed' : 'passed'
        if (this.answersTrials) this.state.observe([{ kind: 'trial', engine, sentAt: this.now, result }], this.now)
      }
    }
  }

  /** Clients leave, from all requests that wait. */
  leaveAll(): void {
    for (const key of this.#waiting.keys()) this.state.release(key, endedAs('client_gone'), this.now)
    this.#waiting.clear()
  }

  /** All requests that wait get no first byte in time. */
  timeOutAll(): void {
    for (const key of this.#waiting.keys()) {
      const attempt = { ...failed, failure: 'first_byte_timeout', status: null } as const
      this.state.release(key, attempt, this.now)
    }
    this.#waiting.clear()
  }

  conditions(): Record<string, Condition | undefined> {
    return Object.fromEntries(this.state.digest(this.now).engines.map(({ id, condition }) => [id, condition]))
  }

  learn(): void {
    for (let at = 0; at < 30; at++) {
      this.send()
      this.pass(300)
    }
  }
}

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
    const rescue = { attempt: 1, hedge: true, rescueFrom: 'a', avoid: ['a'] }
    expect(site.send(rescue)).toBeNull()
    site.pass(4_000)
    expect(['b', 'c']).toContain(site.send(rescue))
    expect(site.state.digest(site.now).engines.find(({ id }) => id === 'a')?.rescuedTotal).toBe(1)
  })

  it('a pool with a stuck engine moves a request that is lost at an engine that answers trials, within the budget of retries', () => {
    const lostAt = (retry: PoolConfig['retry']): [PoolInTime, Admission] => {
      const site = new PoolInTime(undefined, { retry })
      site.learn()
      const first = admission({ avoid: ['b', 'c'] })
      site.state.admit(first, site.now)
      return [site, { ...first, attempt: 1, hedge: true, rescueFrom: 'a', avoid: ['a'], isLastResort: true }]
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

  it('a pool with a stuck engine moves no request that is in time', () => {
    const site = new PoolInTime()
    site.learn()
    const slow = admission({ promptTokens: 100_000, avoid: ['b', 'c'] })
    site.state.admit(slow, site.now)
    site.pass(4_000)
    const rescue = { ...slow, attempt: 1, hedge: true, rescueFrom: 'a', avoid: ['a'], isLastResort: true }
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

  it('a pool with a stuck engine reports once that the pool is stalled, when half of its engines wedge together', () => {
    const site = withStopped(['a', 'b', 'c', 'd'])
    site.pass(3_000)
    expect(site.events).not.toContain('pool_stalled')
    site.stopped.add('b')
    for (let at = 0; at < 8; at++) site.send()
    site.pass(6_000)
    expect(site.conditions()).toMatchObject({ a: 'wedged', b: 'wedged', c: 'well', d: 'well' })
    expect(site.events.filter((event) => event === 'pool_stalled')).toHaveLength(1)
    expect(site.send()).not.toBeNull()
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
        for (const { event, condition, requests, keys } of raised)
          events.push(`${event} ${condition} ${requests ?? ''} ${keys ?? ''}`.trim())
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
