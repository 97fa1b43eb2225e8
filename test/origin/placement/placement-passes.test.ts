import { describe, expect, it } from 'vitest'
import {
  type Pass,
  passAfter,
  passOverAll,
  passOverOne,
  secondPass,
} from '../../../src/origin/placement/placement-passes.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'

type PassKind = Pass['kind']

const route = (id: string): PoolRoute => ({ cluster: { id } }) as unknown as PoolRoute
const [near, far, third] = [route('near'), route('far'), route('third')] as const

const LAST_RESORT = { isLastResort: true }

const KINDS: readonly PassKind[] = ['second_engine', 'one_cluster', 'all_clusters', 'open_circuits', 'queue']

const pass = (kind: PassKind, mayWait: readonly PoolRoute[] = []): Pass => ({
  ...passOverAll([near, far]),
  kind,
  mayWait,
})

describe('the first pass', () => {
  it.each([
    ['one cluster', passOverAll([near]), { kind: 'one_cluster', asks: LAST_RESORT, isChosen: false }],
    ['the only cluster', passOverOne([near]), { kind: 'one_cluster', asks: LAST_RESORT, isChosen: false }],
    ['no cluster', passOverAll([]), { kind: 'one_cluster', asks: LAST_RESORT, isChosen: false }],
    ['two clusters', passOverAll([near, far]), { kind: 'all_clusters', asks: {}, isChosen: true }],
    ['a second engine', secondPass(far), { kind: 'second_engine', asks: {}, isChosen: false, routes: [far] }],
  ] as const)('the first pass of a request for %s', (_, first, expected) => {
    expect(first).toMatchObject({ ...expected, waits: false, notes: [], mayWait: [] })
    expect(first.asks).toEqual(expected.asks)
  })
})

/** Pass that follows, by what the pools have offered: panic mode (P), a place in the queue now (W) or before (w). */
const TRANSITIONS: Readonly<Record<PassKind, Readonly<Record<string, PassKind | null>>>> = {
  second_engine: { '': null, P: null, W: null, w: null, PW: null, Pw: null, Ww: null, PWw: null },
  one_cluster: { '': null, P: null, W: 'queue', w: 'queue', PW: 'queue', Pw: 'queue', Ww: 'queue', PWw: 'queue' },
  all_clusters: {
    '': null,
    P: 'open_circuits',
    W: 'queue',
    w: 'queue',
    PW: 'open_circuits',
    Pw: 'open_circuits',
    Ww: 'queue',
    PWw: 'open_circuits',
  },
  open_circuits: { '': null, P: null, W: 'queue', w: 'queue', PW: 'queue', Pw: 'queue', Ww: 'queue', PWw: 'queue' },
  queue: { '': null, P: null, W: null, w: null, PW: null, Pw: null, Ww: null, PWw: null },
}

describe('the pass after a refusal', () => {
  const cases = KINDS.flatMap((kind) =>
    Object.entries(TRANSITIONS[kind]).map(([offers, next]) => ({ kind, offers, next })),
  )

  it.each(cases)('in $kind with the offers "$offers" is $next', ({ kind, offers, next }) => {
    const has = (offer: string): PoolRoute[] => (offers.includes(offer) ? [near] : [])
    const after = passAfter(pass(kind, has('w')), { mayPanic: has('P'), mayWait: has('W'), notes: [] })
    expect(after?.kind ?? null).toBe(next)
  })

  it('the pass after a refusal asks all pools that offered panic mode, in order, and keeps the notes', () => {
    const notes = ['failover=near:engines_unavailable', 'failover=far:engines_unavailable']
    const after = passAfter(pass('all_clusters'), { mayPanic: [near, far], mayWait: [third], notes })
    expect(after).toMatchObject({ routes: [near, far], asks: LAST_RESORT, waits: false, isChosen: true, notes })
    expect(after!.mayWait).toEqual([third])
  })

  it('the pass after a refusal waits in the first pool that has offered a place, of the first pass that had one', () => {
    const after = passAfter(pass('open_circuits', [far, third]), { mayPanic: [], mayWait: [near], notes: [] })
    expect(after).toMatchObject({ kind: 'queue', routes: [far], asks: LAST_RESORT, waits: true })
  })

  it('the pass after a refusal never returns to a pass, so that every search ends', () => {
    for (const kind of KINDS) {
      const seen: PassKind[] = []
      let next: Pass | null = pass(kind)
      while (next !== null) {
        expect(seen).not.toContain(next.kind)
        seen.push(next.kind)
        next = passAfter(next, { mayPanic: [near], mayWait: [near], notes: [] })
      }
    }
  })
})
