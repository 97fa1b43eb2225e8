import { describe, expect, it } from 'vitest'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { Decision } from '../../../src/core/contract/decision.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import type { SloConfig } from '../../../src/core/contract/pool-config.ts'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import type { Objective } from '../../../src/core/overload/objective.ts'
import { OverloadControl, type OverloadInput, type Verdict } from '../../../src/core/overload/overload-control.ts'
import type { Pressure } from '../../../src/core/overload/pressure.ts'

const SLO: SloConfig = { ttftMs: 1_000, ttftMsPer1kTokens: null, itlMs: 100 }
const IDLE: Pressure = {
  waitMs: 0,
  marginMs: 0,
  prefillMs: 200,
  overdueMs: 0,
  stepMs: 20,
  prefillShare: 0,
  queuedMs: 0,
  outputTokens: null,
  memoryShare: 0,
  stepLimitMs: 100,
  requests: 1,
  waiting: 0,
  samples: 100,
}

interface Case {
  readonly slo?: SloConfig | null
  readonly admission?: Partial<Admission>
  readonly placement?: Placement
  readonly maxWaiting?: number
  readonly now?: number
}

/** Judges a request on engine `a` with alternatives. */
function judge(engines: Record<string, Partial<Pressure>>, given: Case = {}, control = new OverloadControl(() => 0)) {
  const [first = '', ...alternatives] = Object.keys(engines)
  const limited: string[] = []
  const placement = given.placement ?? { kind: 'whole', engine: first, runnersUp: [] }
  control.configure(given.slo === undefined ? SLO : given.slo, 0)
  const input: OverloadInput = {
    admission: readAdmission({ id: 'r', promptTokens: 1_000, ...given.admission }),
    decision: { placement } as unknown as Decision,
    alternatives: () => alternatives,
    maxWaiting: given.maxWaiting ?? 1_000,
    engines: 1 + alternatives.length,
    pressure: (id) => (engines[id] === undefined ? null : { ...IDLE, ...engines[id] }),
    limited: (id) => void limited.push(id),
    now: given.now ?? 0,
  }
  return { verdict: control.judge(input), limited }
}

const limitOf = (verdict: Verdict) => (verdict.kind === 'refuse' ? verdict.refusal.limit : verdict.kind)

describe('admission of a request', () => {
  it('admission of a request is granted on an engine with room', () => {
    expect(judge({ a: {} }).verdict.kind).toBe('admit')
  })

  it('admission of a request is refused if waiting makes it late', () => {
    expect(limitOf(judge({ a: { waitMs: 900 } }).verdict)).toBe('ttft')
  })

  it('admission of a request is granted to a prompt that is late only for its length', () => {
    expect(judge({ a: { waitMs: 90, prefillMs: 60_000 } }).verdict.kind).toBe('admit')
  })

  it('admission of a request is refused if the requests before it are late, however uncertain the predictions are', () => {
    expect(limitOf(judge({ a: { overdueMs: 900, samples: 0 } }).verdict)).toBe('ttft')
  })

  it('admission of a request is refused if the prefills of its engine leave the streams too little time', () => {
    expect(limitOf(judge({ a: { prefillShare: 0.85 } }).verdict)).toBe('itl')
    expect(judge({ a: { prefillShare: 0.75 } }).verdict.kind).toBe('admit')
    expect(limitOf(judge({ a: { prefillMs: 15_000, prefillShare: 0.5 } }).verdict)).toBe('itl')
  })

  it('admission of a request is refused if the queued prefills alone stop the streams for too long', () => {
    const queued = { stepMs: 60, queuedMs: 4_000, prefillMs: 500 }
    expect(limitOf(judge({ a: { ...queued, outputTokens: 100 } }).verdict)).toBe('itl')
    expect(judge({ a: { ...queued, outputTokens: 200 } }).verdict.kind).toBe('admit')
    expect(judge({ a: queued }).verdict.kind).toBe('admit')
  })

  it('admission of a request is refused if the KV cache has no room, but not by an engine without requests', () => {
    expect(limitOf(judge({ a: { memoryShare: 1.1 } }).verdict)).toBe('memory')
    expect(judge({ a: { memoryShare: 1.1, requests: 0 } }).verdict.kind).toBe('admit')
  })

  it('admission of a request counts a very long prefill as half of the window, so that it is admitted on a fleet with little load', () => {
    expect(judge({ a: { prefillMs: 1e6 } }).verdict.kind).toBe('admit')
  })

  it('admission of a request adds time for each 1,000 tokens of the prompt', () => {
    const slo = { ...SLO, ttftMsPer1kTokens: 500 }
    expect(judge({ a: { waitMs: 900 } }, { slo }).verdict.kind).toBe('admit')
    expect(limitOf(judge({ a: { waitMs: 1_400 } }, { slo }).verdict)).toBe('ttft')
  })

  it('admission of a request is not refused by a wait that nobody has measured', () => {
    expect(judge({ a: { waitMs: 60_000, samples: 5 } }).verdict.kind).toBe('admit')
  })

  it('admission of a request is bounded by the number of waiting requests while the wait is unknown, as on a new engine', () => {
    const unknown = { waitMs: 60_000, samples: 5 }
    expect(judge({ a: { ...unknown, waiting: 9 } }, { maxWaiting: 10 }).verdict.kind).toBe('admit')
    expect(limitOf(judge({ a: { ...unknown, waiting: 10 } }, { maxWaiting: 10 }).verdict)).toBe('waiting')
  })

  it('admission of a request is refused if its decode step would be too long, but not by an engine without requests', () => {
    const { verdict, limited } = judge({ a: { stepMs: 120 } })
    expect([limitOf(verdict), limited]).toEqual(['itl', ['a']])
    expect(judge({ a: { stepMs: 120, requests: 0 } }).verdict.kind).toBe('admit')
  })

  it('admission of a request without objectives is bounded by the number of waiting requests only', () => {
    const busy = { a: { waitMs: 1e6, stepMs: 1e6, waiting: 9 } }
    expect(judge(busy, { slo: null, maxWaiting: 10 }).verdict.kind).toBe('admit')
    expect(limitOf(judge(busy, { slo: null, maxWaiting: 9 }).verdict)).toBe('waiting')
  })

  it.each([
    ['critical', 95, 'admit'],
    ['standard', 95, 'admit'],
    ['sheddable', 95, 'itl'],
    ['sheddable', 65, 'admit'],
    ['critical', 105, 'itl'],
  ] as const)('admission of a request of class %s with a step of %i ms: %s', (requestClass, stepMs, expected) => {
    expect(limitOf(judge({ a: { stepMs } }, { admission: { requestClass } }).verdict)).toBe(expected)
  })

  it('admission of a request is harder for a key above its share while others are active', () => {
    const control = new OverloadControl(() => 0)
    control.configure(SLO, 0)
    const objective = control.objective as Objective
    const charge = (tenant: string, times: number) => {
      for (let at = 0; at < times; at++) objective.charge(readAdmission({ id: 'r', tenant }), IDLE, 0)
    }
    charge('noisy', 20)
    const verdictOf = (tenant: string) => judge({ a: { stepMs: 60 } }, { admission: { tenant } }, control).verdict.kind
    expect(verdictOf('noisy')).toBe('admit')
    charge('quiet', 1)
    expect([verdictOf('noisy'), verdictOf('quiet')]).toEqual(['refuse', 'admit'])
  })
})

describe('a deadline of the client', () => {
  it.each([
    [0, 'deadline'],
    [150, 'deadline'],
    [250, 'admit'],
  ])('a deadline of the client of %i ms on an idle engine: %s', (ttftDeadlineMs, expected) => {
    expect(limitOf(judge({ a: {} }, { admission: { ttftDeadlineMs }, slo: null }).verdict)).toBe(expected)
  })

  it('a deadline of the client refuses a prompt whose prefill alone takes longer on an idle engine, which an objective never does', () => {
    const long = { a: { prefillMs: 5_000, requests: 0 } }
    expect(judge(long).verdict.kind).toBe('admit')
    expect(limitOf(judge(long, { admission: { ttftDeadlineMs: 2_000 } }).verdict)).toBe('deadline')
  })

  it('a deadline of the client still applies to a retry, other limits do not', () => {
    const full = { a: { stepMs: 500, waitMs: 500, waiting: 10_000 } }
    expect(judge(full, { admission: { attempt: 1 } }).verdict.kind).toBe('admit')
    expect(limitOf(judge(full, { admission: { attempt: 1, ttftDeadlineMs: 400 } }).verdict)).toBe('deadline')
  })
})

describe('another engine', () => {
  it('another engine takes a late request if it computes little more of the prompt', () => {
    const { verdict } = judge({ a: { waitMs: 2_000 }, b: { prefillMs: 690 } })
    expect(verdict).toMatchObject({ kind: 'move', engine: 'b' })
  })

  it('another engine does not take it if much of its cached prefix would be lost', () => {
    expect(limitOf(judge({ a: { waitMs: 2_000 }, b: { prefillMs: 710 } }).verdict)).toBe('ttft')
  })

  it('another engine is the one with the soonest first token', () => {
    const { verdict } = judge({ a: { stepMs: 120 }, b: { waitMs: 300 }, c: { waitMs: 200 }, d: { stepMs: 130 } })
    expect(verdict).toMatchObject({ kind: 'move', engine: 'c' })
  })

  it('another engine takes a long prompt only where it disturbs the fewest streams', () => {
    const long = { prefillMs: 5_000 }
    const busy = { ...long, stepMs: 200, requests: 40 }
    expect(judge({ a: busy, b: { ...long, requests: 2 }, c: { ...long, requests: 1 } }).verdict).toMatchObject({
      kind: 'move',
      engine: 'c',
    })
  })

  it('another engine is never chosen for a split request', () => {
    const placement: Placement = { kind: 'split', prefill: 'p', decode: 'd', runnersUp: [] }
    const verdict = judge({ p: {}, d: { stepMs: 120 }, x: {} }, { placement }).verdict
    expect(limitOf(verdict)).toBe('itl')
    expect(judge({ p: { stepMs: 120 }, d: {} }, { placement }).verdict.kind).toBe('admit')
  })
})

describe('the retry time', () => {
  const retryMs = (control: OverloadControl) => {
    const { verdict } = judge({ a: { waitMs: 3_000 } }, {}, control)
    return verdict.kind === 'refuse' ? verdict.refusal.retryAfterMs : 0
  }

  it('the retry time is the time until the request would meet the objective', () => {
    expect(retryMs(new OverloadControl(() => 0))).toBe(2_200)
  })

  it('the retry time grows with the work that was refused before, so that clients do not return together', () => {
    const control = new OverloadControl(() => 0)
    const first = retryMs(control)
    for (let at = 0; at < 100; at++) retryMs(control)
    expect(retryMs(control)).toBeGreaterThan(first + 10_000)
    for (let at = 0; at < 10_000; at++) retryMs(control)
    expect(retryMs(control)).toBeLessThanOrEqual(60_000)
  })

  it('the retry time grows as much with refusals of edges as with those of the pool', () => {
    const [pool, edges] = [new OverloadControl(() => 0), new OverloadControl(() => 0)]
    for (let at = 0; at < 51; at++) retryMs(pool)
    retryMs(edges)
    edges.refusedByEdges(50, 0)
    expect(retryMs(edges)).toBe(retryMs(pool))
  })

  it('the retry time is spread by chance over half of its length', () => {
    expect(retryMs(new OverloadControl(() => 1))).toBe(3_300)
  })
})

it('long prompts keep part of their share while most requests are admitted', () => {
  const control = new OverloadControl(() => 0)
  const long = { prefillMs: 10_000, stepMs: 80, requests: 4 }
  const admitted = Array.from({ length: 400 }, () => {
    for (let at = 0; at < 9; at++) judge({ a: {} }, {}, control)
    return judge({ a: long }, {}, control).verdict.kind === 'admit'
  })
  const share = admitted.filter(Boolean).length / admitted.length
  expect(share).toBeGreaterThan(0.5)
  expect(share).toBeLessThan(0.75)
})

it('clients that all obey the retry time exactly do not return together', () => {
  // Linear congruential generator of Numerical Recipes: the spread must not depend on one lucky seed.
  let seed = 1
  const control = new OverloadControl(() => (seed = (1_664_525 * seed + 1_013_904_223) >>> 0) / 2 ** 32)
  const returns = Array.from({ length: 2_000 }, (_, at) => {
    const { verdict } = judge({ a: { waitMs: 3_000 }, b: { stepMs: 200 } }, { now: at }, control)
    return verdict.kind === 'refuse' ? at + verdict.refusal.retryAfterMs : Number.NaN
  })
  // One second wide: the first clients return after the predicted wait, the last after the cap and its spread.
  const perSecond = new Map<number, number>()
  for (const at of returns) perSecond.set(Math.floor(at / 1000), (perSecond.get(Math.floor(at / 1000)) ?? 0) + 1)
  expect(returns.every(Number.isFinite)).toBe(true)
  expect(Math.max(...perSecond.values())).toBeLessThan(2_000 * 0.1)
})
