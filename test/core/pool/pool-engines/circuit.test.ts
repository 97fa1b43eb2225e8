import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  MAX_TRIALS,
  admits,
  booked,
  closed,
  excused,
  judged,
  probedHealthy,
  restored,
  revived,
  type Circuit,
  type CircuitSignal,
  waitMs,
} from '../../../../src/core/pool/pool-engines/circuit.ts'
import { circuitSignal, gatewaySignal } from '../../../../src/core/pool/pool-engines/circuit-signal.ts'
import type { Outcome } from '../../../../src/core/contract/outcome.ts'
import { outcome } from '../../../kit/pool-fixtures.ts'

describe('circuit', () => {
  const settings = { failures: 2, openMs: 1_000 }
  const at = (now: number, key = 'k') => ({ key, now, settings, client: 'c' })
  const open = judged(judged(closed, 'failure', at(0)), 'failure', at(0))

  it('a circuit opens at exactly the number of failures in a row', () => {
    expect(judged(closed, 'failure', at(0))).toEqual({ state: 'closed', by: ['k'], client: 'c' })
    expect(open).toEqual({ state: 'open', openedAt: 0, untilMs: 1_000, openings: 1, by: ['k', 'k'], client: 'c' })
  })

  it('a circuit opens at the first timeout', () => {
    expect(judged(closed, 'hung', at(0))).toMatchObject({
      state: 'open',
      untilMs: 1_000,
      openings: 1,
      by: [],
      isHung: true,
    })
    expect(judged(booked(open, 'trial'), 'hung', at(1_000, 'trial'))).toMatchObject({
      state: 'open',
      untilMs: 3_000,
      openings: 2,
      by: [],
    })
  })

  it('a circuit ignores outcomes without evidence', () => {
    const once = judged(closed, 'failure', at(0))
    expect(judged(once, 'unclear', at(0))).toEqual(once)
    expect(judged(once, 'success', at(0))).toEqual(closed)
  })

  it('a circuit admits no request before its time, then one trial', () => {
    expect([admits(open, 999), admits(open, 1_000)]).toEqual([false, true])
    const halfOpen = booked(open, 'trial')
    expect(halfOpen).toMatchObject({ state: 'half_open', trials: ['trial'], limit: 1, openings: 1, by: ['k', 'k'] })
    expect(admits(halfOpen, 9_999)).toBe(false)
    expect([waitMs(open, 400), waitMs(halfOpen, 400), waitMs(closed, 400)]).toEqual([600, null, 0])
  })

  it('a circuit considers only the trial while half-open, and no result while open', () => {
    const halfOpen = booked(open, 'trial')
    expect(judged(halfOpen, 'success', at(2_000, 'other'))).toEqual(halfOpen)
    expect(judged(halfOpen, 'failure', at(2_000, 'other'))).toEqual(halfOpen)
    expect(judged(open, 'success', at(500))).toEqual(open)
  })

  it('a circuit doubles its time with each failed trial, up to sixteen times', () => {
    let circuit: Circuit = open
    const waits: number[] = []
    for (let index = 0; index < 7; index++) {
      const due: number = waitMs(circuit, 0)!
      circuit = judged(booked(circuit, 'trial'), 'failure', at(due, 'trial'))
      waits.push(waitMs(circuit, due)!)
    }
    expect(waits).toEqual([2_000, 4_000, 8_000, 16_000, 16_000, 16_000, 16_000])
  })

  describe('of an engine that truncates streams', () => {
    const truncated = (circuit: Circuit, now = 0): Circuit =>
      judged(judged(circuit, 'begun', at(now)), 'truncated', at(now))
    const openByTruncation = truncated(truncated(closed))
    const trial = (circuit: Circuit, now: number): Circuit =>
      judged(booked(circuit, 'trial'), 'begun', at(now, 'trial'))

    it('the circuit of a truncating engine opens although each stream had started', () => {
      expect([truncated(closed).state, openByTruncation.state]).toEqual(['closed', 'open'])
      expect(waitMs(openByTruncation, 0)).toBe(1_000)
    })

    it('counts truncated streams and failures together', () => {
      expect(judged(truncated(closed), 'failure', at(0)).state).toBe('open')
    })

    it('the circuit of a truncating engine resets the count when a stream completes, not when one starts', () => {
      expect(judged(truncated(closed), 'success', at(0))).toEqual(closed)
      expect(truncated(judged(truncated(closed), 'begun', at(0))).state).toBe('open')
    })

    it('the circuit of a truncating engine resets failures without a start when a stream starts', () => {
      expect(judged(judged(closed, 'failure', at(0)), 'begun', at(0))).toEqual(closed)
    })

    it('the circuit of a truncating engine closes when the trial starts, and reopens at the next truncation with a doubled time', () => {
      let circuit: Circuit = openByTruncation
      const waits: number[] = []
      for (let index = 0; index < 6; index++) {
        circuit = trial(circuit, 0)
        expect(circuit.state).toBe('closed')
        circuit = judged(circuit, 'truncated', at(0, 'other'))
        waits.push(waitMs(circuit, 0)!)
      }
      expect(waits).toEqual([2_000, 4_000, 8_000, 16_000, 16_000, 16_000])
    })

    it('the circuit of a truncating engine is fully reset when a stream completes after the trial', () => {
      expect(judged(trial(openByTruncation, 0), 'success', at(0, 'other'))).toEqual(closed)
    })

    it('the circuit of a truncating engine opens at the first truncation if failures is 1, also after a trial', () => {
      const one = (key: string) => ({ key, now: 0, settings: { failures: 1, openMs: 1_000 } })
      const opened = judged(closed, 'truncated', one('k'))
      const again = judged(judged(booked(opened, 'trial'), 'begun', one('trial')), 'truncated', one('trial'))
      expect([opened, again].map((circuit) => waitMs(circuit, 0))).toEqual([1_000, 2_000])
    })

    it('the circuit of a truncating engine keeps the truncations if a failure beside them is excused', () => {
      const both = judged(judged(closed, 'truncated', at(0, 'r1')), 'failure', at(0, 'r2'))
      expect(judged(excused(both, 'r2', 5), 'truncated', at(5)).state).toBe('open')
      expect(excused(both, 'r2', 5).state).toBe('closed')
    })
  })

  describe('with failures excused because the request caused them', () => {
    const opened = judged(judged(closed, 'failure', at(0, 'r1')), 'failure', at(0, 'r2'))
    const failedTrial = judged(booked(opened, 'r3'), 'failure', at(1_000, 'r3'))

    it('a circuit with excused failures counts the remaining failures in a row, open or closed', () => {
      expect(excused(judged(closed, 'failure', at(0, 'r1')), 'r1', 5)).toEqual(closed)
      expect(excused(opened, 'r1', 5)).toEqual({ state: 'closed', by: ['r2'], client: 'c' })
      expect(excused(booked(opened, 'r3'), 'r2', 1_500)).toEqual({ state: 'closed', by: ['r1'], client: 'c' })
    })

    it('a circuit with excused failures admits another trial at once and does not count the last one as failed', () => {
      const again = excused(failedTrial, 'r3', 1_500)
      expect(admits(failedTrial, 1_500)).toBe(false)
      expect(admits(again, 1_500)).toBe(true)
      expect(waitMs(judged(booked(again, 'r4'), 'failure', at(1_500, 'r4')), 1_500)).toBe(2_000)
      expect(excused(booked(failedTrial, 'r4'), 'r3', 9_000)).toMatchObject({
        state: 'half_open',
        trials: ['r4'],
        openings: 1,
        by: [],
      })
    })

    it('a circuit with excused failures stays open if it was open before and the request is only suspected', () => {
      expect(excused(opened, 'r2', 5, true)).toEqual({ state: 'closed', by: ['r1'], client: 'c' })
      expect(excused(failedTrial, 'r3', 1_500, true)).toEqual(failedTrial)
      expect(excused(booked(failedTrial, 'r4'), 'r3', 9_000, true)).toEqual(booked(failedTrial, 'r4'))
    })

    it('a circuit with excused failures ignores an excused failure that it did not count', () => {
      for (const circuit of [closed, opened, failedTrial, judged(closed, 'hung', at(0, 'r1'))])
        expect(excused(circuit, circuit === opened ? 'r3' : 'r1', 5)).toEqual(circuit)
    })

    it('a circuit with excused failures equals a circuit without those requests if all outcomes are failures', () => {
      fc.assert(
        fc.property(
          fc.array(fc.boolean(), { maxLength: 30 }),
          fc.integer({ min: 1, max: 6 }),
          fc.boolean(),
          (poisoned, failures, atOnce) => {
            const one = { failures, openMs: 1_000 }
            let circuit: Circuit = closed
            let naive: Circuit = closed
            for (const [index, isPoison] of poisoned.entries()) {
              const attempt = { key: `r${index}`, now: 0, settings: one, client: 'c' }
              circuit = judged(circuit, 'failure', attempt)
              if (isPoison && atOnce) circuit = excused(circuit, attempt.key, 0)
              if (!isPoison) naive = judged(naive, 'failure', attempt)
            }
            if (!atOnce)
              for (const [index, isPoison] of poisoned.entries())
                if (isPoison) circuit = excused(circuit, `r${index}`, 0)
            // Results during an open circuit are ignored, so a late excuse can count fewer failures.
            if (atOnce) expect(circuit).toEqual(naive)
            else if (naive.state === 'closed') expect(circuit.state).toBe('closed')
          },
        ),
      )
    })
  })

  it('a circuit admits a trial at once after the engine recovered', () => {
    expect(admits(revived(open, 10), 10)).toBe(true)
    expect(revived(closed, 10)).toEqual(closed)
  })

  it('a circuit closes at the success of a request sent after it opened, and of no earlier one', () => {
    const success = (sentAt: number) => judged(open, 'success', { ...at(500, 'other'), sentAt })
    expect([success(0), success(1)]).toEqual([open, closed])
  })

  it('a circuit restores snapshots of an older version as open', () => {
    const old = { state: 'probing', trial: 'k', openings: 2, by: [] } as unknown as Circuit
    expect(restored(old, 7)).toEqual({ state: 'open', openedAt: 0, untilMs: 7, openings: 2, by: [] })
    expect(restored({ state: 'open', untilMs: 9, openings: 1, by: [] } as unknown as Circuit, 7)).toMatchObject({
      state: 'open',
      untilMs: 9,
    })
  })

  describe('after any history', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('book' as const) }),
      fc.record({
        kind: fc.constant('judge' as const),
        verdict: fc.constantFrom<CircuitSignal>('success', 'begun', 'failure', 'truncated', 'hung', 'unclear'),
        which: fc.nat(20),
      }),
      fc.record({ kind: fc.constant('probe' as const) }),
      fc.record({ kind: fc.constant('revive' as const) }),
      fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(3_000) }),
    )

    it('a circuit has at most its limit of trials, becomes due, and closes at a new success', () => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, mayOpen) => {
          let circuit: Circuit = closed
          let now = 1
          let keys = 0
          const sentAt = new Map<string, number>()
          for (const one of steps) {
            if (one.kind === 'wait') now += one.ms
            else if (one.kind === 'probe') circuit = probedHealthy(circuit, settings)
            else if (one.kind === 'revive') circuit = revived(circuit, now)
            else if (one.kind === 'book') {
              const key = `k${keys++}`
              sentAt.set(key, now)
              circuit = booked(circuit, key)
            } else {
              const key = `k${one.which}`
              const attempt = { key, now, settings, client: 'c', mayOpen: () => mayOpen }
              const before = circuit
              circuit = judged(circuit, one.verdict, { ...attempt, sentAt: sentAt.get(key) ?? 0 })
              if (!mayOpen && before.state === 'closed') expect(circuit.state).toBe('closed')
            }
            if (circuit.state === 'half_open') {
              expect(circuit.trials.length).toBeLessThanOrEqual(circuit.limit)
              expect(circuit.limit).toBeLessThanOrEqual(MAX_TRIALS)
              expect(admits(circuit, now)).toBe(waitMs(circuit, now) === 0)
            } else expect(admits(circuit, now + waitMs(circuit, now)!)).toBe(true)
            if (circuit.state === 'closed')
              expect(circuit.by.length + (circuit.truncations ?? 0)).toBeLessThan(settings.failures)
            expect(judged(circuit, 'success', { ...at(now, 'new'), sentAt: now + 1 })).toEqual(closed)
          }
        }),
      )
    })
  })
})

describe('circuitSignal', () => {
  const split = {
    firstTokenSeen: false,
    placement: { kind: 'split', prefill: 'p', decode: 'd', runnersUp: [] },
  } as const
  const whole = { firstTokenSeen: false, placement: { kind: 'whole', engine: 'w', runnersUp: [] } } as const
  const on = (end: Partial<Outcome>) => ['p', 'd'].map((id) => circuitSignal(id, split, outcome(end)))

  it('circuitSignal blames only the engine that ended a split request', () => {
    expect(on({ result: 'engine_failed', failure: 'status_5xx', failedEngine: 'p' })).toEqual(['failure', 'unclear'])
    expect(on({ result: 'engine_failed', failure: 'first_byte_timeout', failedEngine: 'd' })).toEqual([
      'unclear',
      'hung',
    ])
    expect(on({ result: 'engine_failed', failure: 'busy', failedEngine: 'p' })).toEqual(['success', 'unclear'])
    expect(on({ result: 'engine_refused', status: 400, failedEngine: 'p' })).toEqual(['success', 'unclear'])
    expect(on({ result: 'engine_failed', failure: 'reset' })).toEqual(['unclear', 'unclear'])
  })

  it('circuitSignal is a success for all engines if the request completed, and unclear if the client disconnected', () => {
    expect(on({})).toEqual(['success', 'success'])
    expect(on({ result: 'client_gone' })).toEqual(['unclear', 'unclear'])
    expect(on({ result: 'lapsed' })).toEqual(['unclear', 'unclear'])
  })

  it('circuitSignal is not a success for a stream whose end was not parsed', () => {
    expect(circuitSignal('w', whole, outcome({ endUnseen: true }))).toBe('begun')
    expect(on({ endUnseen: true })).toEqual(['success', 'begun'])
    // These outcomes are evidence even if the end was not parsed.
    expect(circuitSignal('w', whole, outcome({ endUnseen: true, result: 'engine_refused', status: 400 }))).toBe(
      'success',
    )
  })

  it('circuitSignal distinguishes a truncated stream from one that did not start', () => {
    for (const failure of ['reset', 'idle_timeout', 'malformed'] as const) {
      const end = outcome({ result: 'engine_failed', failure, failedEngine: 'd' })
      expect([false, true].map((firstTokenSeen) => circuitSignal('d', { ...split, firstTokenSeen }, end))).toEqual([
        'failure',
        'truncated',
      ])
    }
  })

  it('circuitSignal needs no engine name if only one engine was involved', () => {
    for (const [end, verdict] of [
      [{ result: 'engine_failed', failure: 'reset' }, 'failure'],
      [{ result: 'engine_failed', failure: 'busy' }, 'success'],
      [{ result: 'engine_refused', status: 400 }, 'success'],
      [{ result: 'abandoned' }, 'unclear'],
    ] as const) {
      expect(circuitSignal('w', whole, outcome(end))).toBe(verdict)
    }
  })
})

describe('verdictOnGateway', () => {
  const request = { firstTokenSeen: false, placement: { kind: 'whole', engine: 'w', runnersUp: [] } } as const
  const on = (end: Partial<Outcome>, firstTokenSeen = false) =>
    gatewaySignal('w', { ...request, firstTokenSeen }, outcome({ result: 'engine_failed', failedEngine: 'w', ...end }))

  it('verdictOnGateway is a success if the gateway responded, even with an error of its engines', () => {
    expect([
      on({ failure: 'status_5xx' }),
      on({ failure: 'busy' }),
      on({ failure: 'reset' }, true),
      on({ result: 'complete', failure: null, endUnseen: true }),
      on({ result: 'engine_refused', failure: null, status: 400 }),
    ]).toEqual(Array(5).fill('success'))
  })

  it('verdictOnGateway is one failure for a missing or late response', () => {
    expect([
      on({ failure: 'connect' }),
      on({ failure: 'reset' }),
      on({ failure: 'loop' }),
      on({ failure: 'connect_timeout' }),
      on({ failure: 'first_byte_timeout' }),
    ]).toEqual(Array(5).fill('failure'))
    expect(on({ result: 'client_gone', failure: null })).toBe('unclear')
  })
})
