import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig, SplitConfig } from '../../../src/core/contract/pool-config.ts'
import { KvTransferModel } from '../../../src/core/latency/kv-transfer.ts'
import { shouldSplit } from '../../../src/core/routing/split-decision.ts'
import { admission, engine, outcome, pool, probe } from '../../kit/pool-fixtures.ts'

const config = (changes: Partial<SplitConfig>): SplitConfig => ({
  mode: 'threshold',
  thresholdTokens: 2_048,
  fallback: 'decode_only',
  ...changes,
})
const facts = { promptTokens: 2_048, cachedTokens: 0, splitTtftMs: null, wholeTtftMs: null }

describe('splitting', () => {
  it.each([
    ['always', { mode: 'always' }, { ...facts, promptTokens: 1 }, true],
    ['never', { mode: 'never' }, facts, false],
    ['exactly at the threshold', {}, facts, true],
    ['just under the threshold', {}, { ...facts, promptTokens: 2_047 }, false],
    [
      'by what is not cached, at the limit',
      { mode: 'uncached' },
      { ...facts, promptTokens: 3_048, cachedTokens: 1_000 },
      true,
    ],
    [
      'by what is not cached, under it',
      { mode: 'uncached' },
      { ...facts, promptTokens: 3_048, cachedTokens: 1_001 },
      false,
    ],
    [
      'by prediction, when split is sooner',
      { mode: 'adaptive' },
      { ...facts, promptTokens: 9, splitTtftMs: 90, wholeTtftMs: 100 },
      true,
    ],
    ['by prediction, when it is not', { mode: 'adaptive' }, { ...facts, splitTtftMs: 100, wholeTtftMs: 100 }, false],
    ['by what is not cached where nothing is predicted', { mode: 'adaptive' }, { ...facts, wholeTtftMs: 100 }, true],
  ] as const)('%s', (_name, changes, given, expected) => {
    expect(shouldSplit(given, config(changes))).toBe(expected)
  })
})

const roles = [
  engine('p0', { role: 'prefill' }),
  engine('p1', { role: 'prefill' }),
  engine('d0', { role: 'decode' }),
  engine('d1', { role: 'decode' }),
]

function open(changes: Partial<PoolConfig> = {}): PoolState {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: roles, ...changes }), 0)
  return state
}

function place(state: PoolState, changes: Partial<Admission> = {}) {
  const answer = state.admit(admission(changes), 0)
  return 'refusal' in answer ? answer.refusal : answer.placement
}

const down = (state: PoolState, ...ids: string[]) =>
  state.observe(
    ids.map((id) => probe(id, 0, { healthy: false })),
    0,
  )

describe('a pool of prefill and decode engines', () => {
  it('a split pool splits by default, and spreads both halves', () => {
    const state = open()
    const placed = [place(state), place(state)]
    expect(placed).toMatchObject([{ kind: 'split' }, { kind: 'split' }])
    expect(new Set(placed.map((one) => ('prefill' in one ? one.prefill : ''))).size).toBe(2)
    expect(new Set(placed.map((one) => ('decode' in one ? one.decode : ''))).size).toBe(2)
  })

  it('a split pool names the decode engines that were not chosen as runners-up', () => {
    const placed = place(open())
    if (!('runnersUp' in placed) || placed.kind !== 'split') throw new Error('the request was not split')
    expect([placed.decode, ...placed.runnersUp].sort()).toEqual(['d0', 'd1'])
  })

  it('a split pool sends requests that are too short or cannot be split to a decode engine', () => {
    expect(place(open(), { unsplittable: 'logprobs' })).toMatchObject({
      kind: 'whole',
      engine: expect.stringMatching(/^d/),
    })
    expect(place(open({ split: config({}) }), { promptTokens: 100 })).toMatchObject({ kind: 'whole' })
  })

  it('a split pool serves unsplit without a prefill engine, or refuses if configured so', () => {
    const [lenient, strict] = [open(), open({ split: config({ mode: 'always', fallback: 'fail' }) })]
    down(lenient, 'p0', 'p1')
    down(strict, 'p0', 'p1')
    expect(place(lenient)).toMatchObject({ kind: 'whole' })
    expect(place(strict)).toMatchObject({ reason: 'role_empty' })
  })

  it('a split pool serves a prompt below the threshold unsplit without a prefill engine, for any fallback', () => {
    for (const fallback of ['fail', 'decode_only'] as const) {
      const state = open({ split: config({ fallback, thresholdTokens: 1_000 }) })
      down(state, 'p0', 'p1')
      expect(place(state, { id: `short-${fallback}`, promptTokens: 999 })).toMatchObject({ kind: 'whole' })
      expect(state.explain(`short-${fallback}`)?.split).toEqual({ taken: false, why: '999 prompt tokens < 1000' })
      expect(place(state, { promptTokens: 1_000 })).toMatchObject(
        fallback === 'fail' ? { reason: 'role_empty' } : { kind: 'whole' },
      )
      expect(place(state, { promptTokens: 1_000, unsplittable: 'echo' })).toMatchObject({ kind: 'whole' })
    }
  })

  it.each([
    [['p0'], ['d0', 'd1', 'd2', 'd3']],
    [
      ['p0', 'p1'],
      ['d0', 'd1', 'd2', 'd3'],
    ],
    [
      ['p0', 'p1', 'p2'],
      ['d0', 'd1'],
    ],
    [
      ['p0', 'p1', 'p2', 'p3', 'p4'],
      ['d0', 'd1', 'd2'],
    ],
  ])(
    'a split pool gives each engine of a role its turn, %s and %s, and its share of those of one that vanishes',
    (prefillers, decoders) => {
      for (const policy of ['round_robin', 'least_loaded']) {
        const engines = [
          ...prefillers.map((id) => engine(id, { role: 'prefill' })),
          ...decoders.map((id) => engine(id, { role: 'decode' })),
        ]
        const state = open({ engines, policy: { name: policy, options: {} } })
        const counts = (requests: number) => {
          const found: Record<string, number> = {}
          for (let at = 0; at < requests; at++) {
            const answer = state.admit(admission(), 0)
            if ('refusal' in answer || answer.placement.kind !== 'split') throw new Error('not split')
            for (const id of [answer.placement.prefill, answer.placement.decode]) found[id] = (found[id] ?? 0) + 1
          }
          return found
        }
        const even = (ids: readonly string[], requests: number) =>
          Object.fromEntries(ids.map((id) => [id, requests / ids.length]))
        expect(counts(60)).toEqual({ ...even(prefillers, 60), ...even(decoders, 60) })
        if (policy !== 'round_robin') continue
        down(state, 'd0')
        const left = decoders.filter((id) => id !== 'd0')
        expect(counts(60)).toEqual({ ...even(prefillers, 60), ...even(left, 60) })
      }
    },
  )

  it('a split pool includes the KV transfer in the predicted TTFT of a split', () => {
    const state = open()
    const predicted = (changes: Partial<Admission>) => {
      const ranked = state.rank(admission({ promptTokens: 4_000, ...changes }), 0)
      if ('refusal' in ranked) throw new Error('refused')
      return ranked.decision.predictedTtftMs!
    }
    // The engines are idle and equal, so the only difference is the KV transfer.
    expect(predicted({}) - predicted({ unsplittable: 'echo' })).toBeCloseTo(new KvTransferModel().expectedMs(4_000), 6)
  })

  it('a split pool keeps the only engine that can prefill for prefill, even if it could decode', () => {
    const state = open({
      engines: [engine('a'), engine('d', { role: 'decode' })],
      split: config({ mode: 'always', fallback: 'fail' }),
    })
    for (let turn = 0; turn < 4; turn++)
      expect(place(state)).toMatchObject({ kind: 'split', prefill: 'a', decode: 'd' })
    down(state, 'd')
    expect(place(state)).toMatchObject({ reason: 'role_empty' })
  })

  it('a split pool names the role without an engine, and its labels', () => {
    const labelled = roles.map((spec) => ({ ...spec, labels: { app: spec.role } }))
    const strict = { engines: labelled, split: config({ mode: 'always', fallback: 'fail' }) }
    const [noDecode, noPrefill, unlabelled] = [open(strict), open(strict), open()]
    for (const state of [noDecode, unlabelled]) down(state, 'd0', 'd1')
    down(noPrefill, 'p0', 'p1')
    expect(place(noDecode)).toMatchObject({ reason: 'role_empty', emptyRole: 'role "decode" (app=decode)' })
    expect(place(noPrefill)).toMatchObject({
      reason: 'role_empty',
      emptyRole: 'role "prefill" (app=prefill)',
      detail: 'no engine for role "prefill" (app=prefill): 2 unhealthy',
    })
    expect(place(unlabelled)).toMatchObject({ reason: 'role_empty', emptyRole: 'role "decode"' })
  })

  it('a split pool names the configured labels of a role whose engines were never discovered, or are gone', () => {
    const split = config({
      mode: 'always',
      fallback: 'fail',
      roles: { prefill: ['llm-d.ai/role=prefill'], decode: ['llm-d.ai/role=decode', 'app=vllm'] },
    })
    const [p, d] = [
      engine('p', { role: 'prefill', labels: { pod: 'vllm-7' } }),
      engine('d', { role: 'decode', labels: { pod: 'vllm-8' } }),
    ]
    const prefillRole = 'role "prefill" (llm-d.ai/role=prefill)'
    const decodeRole = 'role "decode" (llm-d.ai/role=decode, app=vllm)'
    const noPrefill = {
      reason: 'role_empty',
      emptyRole: prefillRole,
      detail: `no engine for ${prefillRole}: none found`,
    }
    expect(place(open({ engines: [d], split }))).toMatchObject(noPrefill)
    expect(place(open({ engines: [engine('a'), d], split: { ...split, roles: {} } }))).toMatchObject({ kind: 'split' })
    expect(place(open({ engines: [engine('a')], split }))).toMatchObject(noPrefill)
    for (const engines of [[], [p]])
      expect(place(open({ engines, split }))).toMatchObject({
        reason: 'role_empty',
        emptyRole: decodeRole,
        away: 'gone',
      })
    const unready = open({ engines: [p, d], split })
    down(unready, 'p')
    expect(place(unready)).toMatchObject({ emptyRole: prefillRole, detail: expect.stringContaining('1 unhealthy') })
  })

  it('a split pool is full and not without a role if all decode engines are full', () => {
    const state = open({
      engines: roles.map((spec) => (spec.role === 'decode' ? { ...spec, maxInFlight: 1 } : spec)),
    })
    place(state)
    place(state)
    expect(place(state)).toMatchObject({ reason: 'engines_full' })
  })

  it('a split pool counts a failure for the engine that failed and not for its partner', () => {
    const state = open({ circuit: { failures: 1, openMs: 1_000 } })
    const answer = state.admit(admission(), 0)
    if ('refusal' in answer || answer.placement.kind !== 'split') throw new Error('not split')
    const { prefill } = answer.placement
    state.release(answer.key, outcome({ result: 'engine_failed', failure: 'reset', failedEngine: prefill }), 0)
    const blamed = state.digest(0).engines.filter(({ circuit }) => circuit === 'open')
    expect(blamed.map(({ id }) => id)).toEqual([prefill])
  })

  it('a split pool counts the prefill until the first token and the decode until the end', () => {
    const state = open({ engines: [roles[0]!, roles[2]!] })
    const answer = state.admit(admission(), 0)
    if ('refusal' in answer) throw new Error('refused')
    const requests = () => state.digest(0).engines.map((entry) => entry.requests)
    expect(requests()).toEqual([1, 1])
    state.firstToken(answer.key, {}, 0)
    expect(requests()).toEqual([0, 1])
    state.release(answer.key, outcome(), 0)
    expect(requests()).toEqual([0, 0])
  })
})

describe('a pool with an encoder', () => {
  it('a pool with an encoder encodes requests that have items, and no others', () => {
    const state = open({ engines: [engine('v', { role: 'encode' }), engine('a')] })
    expect(place(state, { encodeItems: 2 })).toEqual({
      kind: 'staged',
      encode: ['v', 'v'],
      prefill: null,
      decode: 'a',
      runnersUp: [],
    })
    expect(place(state)).toMatchObject({ kind: 'whole', engine: 'a' })
  })

  it('a pool with an encoder counts an encoder’s failure once, however many items of the request it had', () => {
    const state = open({
      engines: [engine('v', { role: 'encode' }), engine('a')],
      circuit: { failures: 3, openMs: 1_000 },
    })
    const answer = state.admit(admission({ encodeItems: 5 }), 0)
    if ('refusal' in answer) throw new Error('refused')
    state.release(answer.key, outcome({ result: 'engine_failed', failure: 'reset', failedEngine: 'v' }), 0)
    expect(state.digest(0).engines[0]).toMatchObject({ id: 'v', circuit: 'closed', failuresTotal: 1, requests: 0 })
  })
})

describe('runners-up', () => {
  it('runners-up follow the winner in its ranking, without it', () => {
    const state = open({ engines: ['a', 'b', 'c'].map((id) => engine(id)) })
    const answer = state.admit(admission({ avoid: ['b'] }), 0)
    if ('refusal' in answer || answer.placement.kind !== 'whole') throw new Error('not whole')
    const { engine: winner, runnersUp } = answer.placement
    expect([winner, ...runnersUp].sort()).toEqual(['a', 'c'])
  })
})
