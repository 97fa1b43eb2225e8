import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import { type EarlyLegRole, endsAtFirstToken, legsOf } from '../../../src/core/contract/legs.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission, TokenSource } from '../../../src/core/contract/admission.ts'
import type { EngineSpec, PoolConfig, Role } from '../../../src/core/contract/pool-config.ts'
import type { EngineStats } from '../../../src/core/contract/engine-signal.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import { admission, engine, failed, outcome, pool, probe, stats } from '../../kit/pool-fixtures.ts'

const LEASE_MS = 60_000
const ids = ['a', 'b', 'c', 'd', 'e']
const roles: Role[] = ['any', 'any', 'prefill', 'decode', 'encode']
const policies = [
  'predicted',
  'active_blocks',
  'round_robin',
  'random',
  'session',
  'qps',
  'least_loaded',
  'power_of_two',
  'no_such_policy',
]

type Op =
  | {
      readonly do: 'admit'
      readonly promptTokens: number
      readonly session: string | null
      readonly attempt: number
      readonly avoid: readonly string[]
      readonly splits: boolean
      readonly request: Partial<Admission>
    }
  | { readonly do: 'firstToken' | 'renew' | 'resume' | 'fail' | 'leave'; readonly pick: number }
  | { readonly do: 'release'; readonly pick: number; readonly cachedTokens: number | null }
  | { readonly do: 'legDone'; readonly pick: number; readonly part: EarlyLegRole }
  | { readonly do: 'excuse'; readonly pick: number; readonly engine: string }
  | { readonly do: 'progress'; readonly pick: number; readonly outputBlocks: number }
  | { readonly do: 'wait'; readonly ms: number }
  | {
      readonly do: 'probe'
      readonly engine: string
      readonly healthy: boolean
      readonly asleep: boolean
      readonly stats: Partial<EngineStats>
    }
  | { readonly do: 'drain'; readonly engine: string; readonly draining: boolean }
  | {
      readonly do: 'configure'
      readonly engines: readonly string[]
      readonly policy: string
      readonly roles: readonly Role[]
      readonly described: Partial<EngineSpec>
      readonly blockTokens: number
    }
  | { readonly do: 'evict' }

const pick = fc.nat(1_000)
const one = fc.constantFrom(...ids)
const engineStats = fc.record({
  running: fc.nat(9),
  cacheBlocks: fc.constantFrom(null, 30, 1_000),
  blockTokens: fc.constantFrom(null, 16),
  prefixCaching: fc.constantFrom(null, true, false),
  adapters: fc.constantFrom(null, { running: ['lora-1'], max: 1 }),
})
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('admit' as const),
      promptTokens: fc.nat(5_000),
      session: fc.option(fc.constantFrom('session-1', 'session-12', 's')),
      attempt: fc.nat(2),
      avoid: fc.uniqueArray(one, { maxLength: 3 }),
      splits: fc.boolean(),
      request: fc.record({
        tokenSource: fc.constantFrom<TokenSource>('exact', 'bytes'),
        encodeItems: fc.nat(3),
        adapter: fc.option(fc.constantFrom('lora-1', 'lora-2')),
        expectedOutputTokens: fc.option(fc.integer({ min: 1, max: 3_000 })),
      }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'firstToken' as const,
        'renew' as const,
        'resume' as const,
        'fail' as const,
        'leave' as const,
      ),
      pick,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('release' as const),
      pick,
      cachedTokens: fc.constantFrom(null, 0, 1_000, 1e6),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('legDone' as const),
      pick,
      part: fc.constantFrom<EarlyLegRole>('encode', 'prefill'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('excuse' as const), pick, engine: one }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('progress' as const), pick, outputBlocks: fc.nat(40) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 900, 16_000, 29_000, 31_000, 59_999, 61_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('probe' as const),
      engine: one,
      healthy: fc.boolean(),
      asleep: fc.boolean(),
      stats: engineStats,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drain' as const), engine: one, draining: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('configure' as const),
      engines: fc.uniqueArray(one, { minLength: 1 }),
      policy: fc.constantFrom(...policies),
      roles: fc.array(fc.constantFrom(...roles), { minLength: ids.length, maxLength: ids.length }),
      described: fc.record({
        maxInFlight: fc.option(fc.integer({ min: 1, max: 5 })),
        weight: fc.constantFrom(0, 1, 2),
        profile: fc.constantFrom(null, 'l4-8b', 'b200-70b'),
        cacheBlocks: fc.constantFrom(null, 20, 500),
        prefixCaching: fc.constantFrom('auto' as const, 'on' as const, 'off' as const),
        models: fc.constantFrom(null, ['qwen'], ['other']),
      }),
      blockTokens: fc.constantFrom(64, 64, 16),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: 'evict' as const }) },
)

/** Expected state, computed in the simplest way. */
interface Expected {
  readonly request: Admission
  readonly placement: Placement
  held: { readonly key: string }
  /** Engines of the configuration at the time of the booking. */
  readonly on: readonly string[]
  firstTokenSeen: boolean
  /** Legs that ended before the first token. */
  readonly done: Set<EarlyLegRole>
  seenAt: number
  lapsesAt: number
}

class World {
  now = 1_800_000_000_000
  version = 1
  pool: PoolConfig = pool({
    engines: [engine('a', { role: 'prefill' }), engine('b'), engine('c', { role: 'decode' })],
    leaseMs: LEASE_MS,
  })
  readonly live = new Map<string, Expected>()
  /** All bookings ever made, because operations can refer to released ones. */
  readonly all: Expected[] = []
  readonly released = new Set<string>()
  state = this.fresh()

  fresh(): PoolState {
    let draws = 0
    return new PoolState({ random: () => (draws++ * 0.618) % 1, epoch: 'e' })
  }

  run(step: Op): void {
    switch (step.do) {
      case 'admit':
        return this.admit(step)
      case 'wait':
        this.now += step.ms
        this.state.expire(this.now)
        for (const [key, { lapsesAt }] of this.live) if (this.now > lapsesAt) this.live.delete(key)
        return
      case 'probe':
        return void this.state.observe(
          [probe(step.engine, this.now, { healthy: step.healthy, asleep: step.asleep, stats: stats(step.stats) })],
          this.now,
        )
      case 'drain':
        return void this.state.observe([{ kind: 'drain', engine: step.engine, draining: step.draining }], this.now)
      case 'excuse':
        return this.excuse(step)
      case 'configure':
        this.version += 1
        this.pool = pool({
          leaseMs: LEASE_MS,
          blockTokens: step.blockTokens,
          policy: { name: step.policy, options: {} },
          engines: step.engines.map((id, index): EngineSpec =>
            engine(id, { ...(index % 2 === 0 ? step.described : {}), role: step.roles[index]! }),
          ),
        })
        this.state.configure(this.version, this.pool, this.now)
        return
      case 'evict':
        return this.evict()
      default:
        return this.speak(step)
    }
  }

  admit({ promptTokens, session, attempt, avoid, splits, request: more }: Extract<Op, { do: 'admit' }>): void {
    const blocks = Uint32Array.from({ length: 2 * Math.floor(promptTokens / 64) }, (_, index) => index)
    const request = admission({
      ...more,
      promptTokens,
      blocks,
      session,
      attempt,
      avoid,
      unsplittable: splits ? null : 'asked',
    })
    const answer = this.state.admit(request, this.now)
    if ('refusal' in answer) return
    const on = this.knownOf(answer.placement)
    expect(on.some((id) => avoid.includes(id))).toBe(false)
    const expected = {
      request,
      placement: answer.placement,
      held: answer,
      on,
      firstTokenSeen: false,
      done: new Set<EarlyLegRole>(),
      seenAt: this.now,
      lapsesAt: this.now + LEASE_MS,
    }
    this.live.set(answer.key, expected)
    this.all.push(expected)
  }

  /** Usually a recent booking, which is more likely to be live. */
  picked(at: number): Expected | undefined {
    return this.all.at(-1 - (at % Math.max(1, Math.min(4, this.all.length))))
  }

  /** Excuses change no booking: live ones stay live. */
  excuse({ pick: at, engine: id }: Extract<Op, { do: 'excuse' }>): void {
    const chosen = this.picked(at)
    if (chosen !== undefined) this.state.observe([{ kind: 'excused', engine: id, booking: chosen.held.key }], this.now)
  }

  speak(step: Exclude<Op, { do: 'admit' | 'wait' | 'probe' | 'drain' | 'excuse' | 'configure' | 'evict' }>): void {
    const chosen = this.picked(step.pick)
    if (chosen === undefined) return
    const { key } = chosen.held
    const isLive = this.live.has(key)
    const { now } = this
    switch (step.do) {
      case 'firstToken':
        expect(this.state.firstToken(key, { ttft: 50 }, now)).toBe(isLive)
        if (isLive) chosen.firstTokenSeen = true
        break
      case 'legDone':
        expect(this.state.legDone(key, { legRole: step.part, stages: {} }, now)).toBe(isLive)
        if (isLive && !chosen.firstTokenSeen) chosen.done.add(step.part)
        break
      case 'renew':
        expect(this.state.renew(key, now)).toBe(isLive)
        break
      case 'progress':
        expect(this.state.progress(key, step.outputBlocks, now)).toBe(isLive)
        break
      case 'resume':
        return this.resume(chosen)
      default: {
        const { promptTokens } = chosen.request
        const ended =
          step.do === 'release'
            ? outcome({ usage: { promptTokens, completionTokens: 9, cachedTokens: step.cachedTokens } })
            : step.do === 'fail'
              ? failed
              : outcome({ result: 'client_gone' })
        expect(this.state.release(key, ended, now)).toBe(isLive)
        if (isLive) this.released.add(key)
        this.live.delete(key)
        return
      }
    }
    if (isLive) this.seen(chosen)
  }

  resume(chosen: Expected): void {
    const { request, placement, firstTokenSeen, done } = chosen
    const { key } = chosen.held
    const answer = this.state.resume(
      { admission: request, placement, firstTokenSeen, legsDone: [...done], outputBlocks: 1 },
      this.now,
    )
    if ('refusal' in answer) throw new Error('a configured object resumes')
    if (this.live.has(key)) {
      chosen.held = answer
      this.seen(chosen)
    } else if (!this.released.has(key)) {
      const again = {
        ...chosen,
        held: answer,
        on: this.knownOf(placement),
        seenAt: this.now,
        lapsesAt: this.now + LEASE_MS,
      }
      this.live.set(key, again)
      this.all[this.all.indexOf(chosen)] = again
    }
  }

  evict(): void {
    const snapshot = structuredClone(this.state.snapshot(this.now))
    this.state = this.fresh()
    if (snapshot !== null) this.state.restore(snapshot, this.now)
    // A late resume can now restore released bookings, because the new state has no record of their release.
    this.released.clear()
    for (const held of this.live.values()) held.lapsesAt = Math.max(held.seenAt + LEASE_MS, this.now + LEASE_MS / 2)
  }

  seen(booking: Expected): void {
    booking.seenAt = this.now
    booking.lapsesAt = this.now + LEASE_MS
  }

  knownOf(placement: Placement): string[] {
    const known = new Set(this.state.digest(this.now).engines.map(({ id }) => id))
    return legsOf(placement)
      .map((part) => part.engine)
      .filter((id) => known.has(id))
  }

  requests(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { id } of this.pool.engines) counts[id] = 0
    for (const { placement, on, firstTokenSeen, done } of this.live.values()) {
      for (const { engine: id, legRole: part } of legsOf(placement)) {
        if (on.includes(id))
          counts[id] = (counts[id] ?? 0) + (endsAtFirstToken(part) && (firstTokenSeen || done.has(part)) ? 0 : 1)
      }
    }
    return counts
  }

  check(): void {
    const digest = this.state.digest(this.now)
    expect(digest.bookings).toBe(this.live.size)
    expect(Object.fromEntries(digest.engines.map((entry) => [entry.id, entry.requests]))).toEqual(this.requests())
    for (const { request } of this.live.values()) expect(this.live.has(bookingKey(request))).toBe(true)
  }
}

it('the pool state equals a naive model for any sequence of events, and ends at exactly zero', () => {
  fc.assert(
    fc.property(fc.array(op, { maxLength: 80 }), fc.boolean(), (ops, byLapse) => {
      const world = new World()
      world.state.configure(world.version, world.pool, world.now)
      for (const step of ops) {
        world.run(step)
        world.check()
      }
      if (byLapse) world.run({ do: 'wait', ms: 2 * LEASE_MS })
      else for (const key of world.live.keys()) world.state.release(key, outcome(), world.now)
      const digest = world.state.digest(world.now)
      expect(digest.bookings).toBe(0)
      expect(digest.engines.map(({ id }) => id).sort()).toEqual(world.pool.engines.map(({ id }) => id).sort())
      for (const { requests, activeBlocks, queuedPrefillS } of digest.engines)
        expect({ requests, activeBlocks, queuedPrefillS }).toEqual({ requests: 0, activeBlocks: 0, queuedPrefillS: 0 })
    }),
    { numRuns: 400 },
  )
})
