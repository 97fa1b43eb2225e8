import { describe, expect, it } from 'vitest'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolEvent } from '../../../src/core/pool/pool-events.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine as newEngine, engines, outcome, pool, probe } from '../../kit/pool-fixtures.ts'

const NAMES = ['a', 'b', 'c']
const TTFT_MS = 200
const TRIAL_MS = 40

/** Engines that serve prompts and trials at their own speed. */
class Paced {
  now = 1_000_000
  readonly state = new PoolState({ random: () => 0.5, epoch: 'e' })
  /** Factors on the times of prompts and trials. */
  readonly prompts = new Map<string, number>()
  readonly trials = new Map<string, number>()
  readonly events: PoolEvent[] = []
  readonly #due: { readonly at: number; readonly run: () => void }[] = []

  constructor(changes: Partial<PoolConfig> = {}, names = NAMES) {
    const policy = { name: 'round_robin', options: {} }
    this.state.configure(1, pool({ policy, engines: engines(...names), ...changes }), this.now)
  }

  /** Places a request, which is answered in time. */
  send(changes: Partial<Admission> = {}): string | null {
    const admitted = this.state.admit(admission({ isLastResort: true, ...changes }), this.now)
    if ('refusal' in admitted) return null
    const engine = servingEngine(admitted.placement)
    const ttft = TTFT_MS * (this.prompts.get(engine) ?? 1)
    const at = this.now + ttft
    this.#due.push(
      { at, run: () => this.state.firstToken(admitted.key, { ttft }, at) },
      { at: at + 1, run: () => this.state.release(admitted.key, outcome(), at + 1) },
    )
    return engine
  }

  pass(ms: number): void {
    for (const end = this.now + ms; this.now < end;) {
      this.now += 10
      for (const due of this.#due.splice(0)) {
        if (due.at <= this.now) due.run()
        else this.#due.push(due)
      }
      if (this.now % 100 !== 0) continue
      const { trials, events } = this.state.watch(this.now)
      this.events.push(...events)
      const sentAt = this.now
      for (const { engine } of trials) {
        const at = sentAt + TRIAL_MS * (this.trials.get(engine) ?? 1)
        const signal = { kind: 'trial', engine, sentAt, result: 'passed' } as const
        this.#due.push({ at, run: () => this.state.observe([signal], at) })
      }
    }
  }

  /** A request to each engine, again and again. */
  work(ms: number): void {
    for (const end = this.now + ms; this.now < end;) {
      for (let at = 0; at < NAMES.length; at++) this.send()
      this.pass(3_000)
    }
  }

  slow(engine: string, factor: number): void {
    this.prompts.set(engine, factor)
    this.trials.set(engine, factor)
  }

  get ejected(): readonly string[] {
    return this.events.flatMap(({ event, engine, condition }) =>
      event === 'engine_down' || event === 'engine_up' ? [`${event} ${engine} ${condition}`] : [],
    )
  }
}

function withSlow(site = new Paced(), trialFactor = 10): Paced {
  site.work(90_000)
  site.slow('a', 10)
  site.trials.set('a', trialFactor)
  site.work(90_000)
  return site
}

describe('a pool with an engine that becomes ten times slower', () => {
  it('a pool with a slow engine takes it out, which its decisions show', () => {
    const site = withSlow()
    expect(site.ejected).toEqual(['engine_down a slow'])
    for (let at = 0; at < 12; at++) expect(site.send()).not.toBe('a')
    const ranked = site.state.rank(admission(), site.now)
    expect(ranked).toMatchObject({ decision: { excluded: [{ engine: 'a', reason: 'slow' }] } })
  })

  it('a pool with a slow engine uses it again after a comparison in which it is as fast as its sibling', () => {
    const site = withSlow()
    site.slow('a', 1)
    site.pass(4_000)
    expect(site.ejected).toEqual(['engine_down a slow', 'engine_up a slow'])
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })

  it('a pool with a slow engine keeps it in use if its trials are as fast as those of a sibling: requests may be slow by themselves', () => {
    const site = withSlow(new Paced(), 1)
    expect(site.state.digest(site.now).engines[0]).toMatchObject({ id: 'a', condition: 'slow' })
    expect(site.ejected).toEqual([])
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })

  it('a pool with a slow engine still places there what no other engine can serve', () => {
    const site = withSlow()
    expect(site.send({ avoid: ['b', 'c'] })).toBe('a')
  })

  it('a pool with a slow engine prefers it to the engine of a provider', () => {
    const provider = newEngine('p', { isExternal: true, prefixCaching: 'off' })
    const site = withSlow(new Paced({ engines: [...engines(...NAMES), provider] }))
    expect(site.ejected).toEqual(['engine_down a slow'])
    expect(site.send({ avoid: ['b', 'c'] })).toBe('a')
  })

  it('a pool with a slow engine uses it again when it is the last one', () => {
    const site = withSlow()
    for (const id of ['b', 'c']) site.state.observe([probe(id, site.now, { healthy: false, stats: null })], site.now)
    site.pass(200)
    expect(site.ejected).toContain('engine_up a slow')
    expect(site.send()).toBe('a')
  })

  it('a pool with a slow engine uses it again after a restart, of which it knows no pace', () => {
    const site = withSlow()
    site.state.observe([probe('a', site.now, { healthy: false, stats: null })], site.now)
    site.pass(1_000)
    site.state.observe([probe('a', site.now)], site.now)
    expect([site.send(), site.send(), site.send()]).toContain('a')
  })

  it('a pool with a slow engine keeps engines that have always been slower than their siblings', () => {
    const site = new Paced()
    site.slow('a', 10)
    site.work(180_000)
    expect(site.state.digest(site.now).engines[0]).toMatchObject({ condition: 'slow' })
    expect(site.ejected).toEqual([])
  })
})
