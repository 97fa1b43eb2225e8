import { describe, expect, it } from 'vitest'
import type { EngineStats } from '../../../src/core/contract/engine-signal.ts'
import { probe, stats } from '../../kit/pool-fixtures.ts'
import { PoolInTime, TTFT_MS } from '../../kit/pool-in-time.ts'

const OWN_REQUESTS = 3
/** Of one trial, which engines count as well. */
const TRIAL_REQUESTS = 2
const work = (live: number): NonNullable<EngineStats['work']> => ({ total: live, live, prefill: null })

describe('a silent engine whose metrics are read', () => {
  /** Engine a sends nothing. */
  const stopped = (): PoolInTime => {
    const site = new PoolInTime()
    site.learn()
    site.stopped.add('a')
    for (let at = 0; at < OWN_REQUESTS; at++) site.send({ avoid: ['b', 'c'] })
    return site
  }
  /** Time passes, and the metrics of a are read every 100 ms. */
  const passReading = (site: PoolInTime, ms: number, read: (now: number) => EngineStats | null): void => {
    for (let at = 0; at < ms; at += 100) {
      site.pass(100)
      site.state.observe([probe('a', site.now, { stats: read(site.now) })], site.now)
    }
  }
  const condition = (site: PoolInTime) => site.conditions()['a']
  /** Requests that a counts by itself. */
  const runningAt = (site: PoolInTime): number => OWN_REQUESTS + (condition(site) === 'well' ? 0 : TRIAL_REQUESTS)

  it('a silent engine that works for others is not out of use while its counters grow, for at most 10 s', () => {
    const site = stopped()
    const busy = (now: number): EngineStats => stats({ running: runningAt(site) + 1, work: work(now) })
    passReading(site, TTFT_MS + 1_500, busy)
    expect(condition(site)).toBe('suspect')
    passReading(site, 7_000, busy)
    expect(condition(site)).toBe('suspect')
    passReading(site, 3_000, busy)
    expect(condition(site)).toBe('wedged')
  })

  it('a silent engine is out of use although its counters grow, if it has no requests of others: its output does not arrive', () => {
    const site = stopped()
    passReading(site, TTFT_MS + 2_000, (now) => stats({ running: runningAt(site), work: work(now) }))
    expect(condition(site)).toBe('wedged')
  })

  it('a silent engine whose counters stand still is out of use before its trial has ended', () => {
    const verdict = (read: (running: number) => EngineStats | null): unknown => {
      const site = stopped()
      site.answersTrials = false
      passReading(site, TTFT_MS + 2_000, () => read(runningAt(site)))
      return condition(site)
    }
    expect(verdict((running) => stats({ running, work: work(7) }))).toBe('wedged')
    expect(verdict(() => stats({ running: 0, work: work(7) }))).toBe('suspect')
    expect(verdict((running) => stats({ running }))).toBe('suspect')
    expect(verdict(() => null)).toBe('suspect')
  })

  it('a silent engine whose last metrics are old is judged by its trials alone', () => {
    const site = stopped()
    site.answersTrials = false
    passReading(site, 300, () => stats({ running: OWN_REQUESTS, work: work(7) }))
    site.pass(5_000)
    expect(condition(site)).toBe('suspect')
  })

  it('a silent engine at a long prefill whose counters stand still is not out of use before its trial has ended', () => {
    const site = new PoolInTime()
    site.learn()
    site.stopped.add('a')
    site.answersTrials = false
    site.send({ avoid: ['b', 'c'], promptTokens: 20_000 })
    passReading(site, 120_000, () => stats({ running: 1, work: work(7) }))
    expect(condition(site)).toBe('suspect')
  })

  it('an engine whose counters stand still is well while it owes nothing', () => {
    const site = new PoolInTime()
    site.learn()
    passReading(site, 5_000, () => stats({ running: 2, work: work(7) }))
    expect(condition(site)).toBe('well')
  })

  it('a silent engine is read again soon', () => {
    const site = stopped()
    const soon = () =>
      site.state.observe([probe('a', site.now, { stats: stats({ running: runningAt(site) }) })], site.now)
    expect(soon()).toEqual([])
    site.pass(TTFT_MS + 1_000)
    expect(soon()).toEqual(['a'])
  })

  it('counters of an engine are not in the digest of its pool', () => {
    const site = stopped()
    site.state.observe([probe('a', site.now, { stats: stats({ running: OWN_REQUESTS, work: work(7) }) })], site.now)
    expect(site.state.digest(site.now).engines.find(({ id }) => id === 'a')?.stats).not.toHaveProperty('work')
  })
})
