import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { concernsOf, sinceOf } from '../../src/dashboard/concerns.ts'
import { linesOf } from '../../src/dashboard/engine-state.ts'
import type { Engine, Pool, View } from '../../src/dashboard/wire.ts'

type Learned = NonNullable<Engine['learned']>
type Stats = NonNullable<Engine['stats']>

const concerns = (engine: Partial<Engine>, pool: Partial<Pool> = {}, view: Partial<View> = {}) => {
  const own = {
    cluster: 'c',
    model: 'm',
    reachable: true,
    engines: [{ id: 'a', role: 'any', available: true, ...engine }],
  }
  const pools = [{ ...own, ...pool } as unknown as Pool]
  return concernsOf({ pools, ...view } as View, linesOf(pools))
}
const found = (...state: Parameters<typeof concerns>) =>
  concerns(...state).map(({ subject, tone, reason }) => [subject, tone, reason])

const wedgedEngines = (count: number): Pool['engines'] =>
  ['a', 'b', 'c', 'd'].map(
    (id, at) => ({ id, role: 'any', available: true, condition: at < count ? 'wedged' : 'well' }) as unknown as Engine,
  )

const silentRegion = { reachable: false, engines: 0, age_ms: 4_000, blocking_match: true } as NonNullable<
  Pool['gateway']
>

describe('what needs attention', () => {
  it('the list of concerns is nothing in a healthy fleet, and while engines drain or sleep', () => {
    expect(found({ healthy: true })).toEqual([])
    expect(found({ available: false, draining: true })).toEqual([])
    expect(found({ available: false, asleep: true })).toEqual([])
  })

  it('the list of concerns links each problem to its section of the runbook', () => {
    const runbook = readFileSync(new URL('../../src/dashboard/runbook.html', import.meta.url), 'utf8')
    const replicas = [{ host: 'gw-2', state: 'away' }] as unknown as NonNullable<View['replicas']>
    const listed = [
      ...concerns({ healthy: false }, {}, { config_refused_at: 5, replicas }),
      ...concerns({ circuit: 'open', last_failure: { failure: 'loop', at: 1 } }, { at: 2 }),
      ...concerns({ learned: { silent_miss: ['x'] } as unknown as Learned }, { reachable: false }),
      ...concerns({ kv_feed: { state: 'silent', changes: 0, resyncs: 0, lag_ms: 0 } }),
      ...concerns({ stats: { age_ms: 90_000 } as Stats }),
      ...concerns({ ignores_ranks: true }),
      ...(['wedged', 'slow', 'saturated'] as const).flatMap((condition) => concerns({ condition })),
      ...concerns({}, { engines: wedgedEngines(2) }),
      ...concerns({ compared: { total: 40, disagreed: 30, stands_out_since: 5 } }),
      ...concerns({}, { gateway: { blocking_match: false } as unknown as NonNullable<Pool['gateway']> }),
      ...concerns({}, { gateway: silentRegion }),
    ].map(({ help }) => help)
    expect(new Set(listed)).toEqual(
      new Set(
        ['unhealthy', 'configuration', 'replica', 'circuit', 'loop', 'region'].concat([
          'pool',
          'silent-miss',
          'kv-feed',
          'stale',
          'ranks-ignored',
          'blocks',
          'wedged',
          'stalled',
          'slow-engine',
          'disagrees',
          'saturated',
        ]),
      ),
    )
    for (const section of listed) expect(runbook).toContain(`<h2 id="${section}">`)
  })

  it('the list of concerns says whom a problem of an engine hurts', () => {
    const hurts = (engine: Partial<Engine>) => concerns(engine).map((concern) => concern.hurts)
    const hurt = { requests: 4, keys: 2, models: 1 }
    expect(hurts({ condition: 'wedged', hurt, abandoned_total: 3 })).toEqual([
      '4 clients wait (2 keys); 3 clients gave up since the start',
    ])
    const one = { requests: 1, keys: 1, models: 1 }
    expect(hurts({ condition: 'slow', hurt: one })).toEqual(['1 client waits'])
    expect(hurts({ healthy: false, condition: 'unreachable', hurt: { ...hurt, models: 3 } })).toEqual([
      '4 clients wait (2 keys; 3 models)',
    ])
    expect(hurts({ condition: 'slow', hurt: { requests: 0, keys: 0, models: 0 } })).toEqual([undefined])
    expect(hurts({ ignores_ranks: true, abandoned_total: 3 })).toEqual([undefined])
  })

  it('the list of concerns names the keys and models that a problem hurts, and the number of further ones', () => {
    const hurts = (hurt: NonNullable<Engine['hurt']>) => concerns({ condition: 'wedged', hurt })[0]!.hurts
    const two = { requests: 4, keys: 2, models: 1, key_names: ['ada', 'bob'], model_names: ['qwen'] }
    expect(hurts(two)).toBe('4 clients wait (keys ada, bob)')
    expect(hurts({ ...two, keys: 9, models: 2, model_names: ['qwen', 'qwen-lora'] })).toBe(
      '4 clients wait (keys ada, bob and 7 more; models qwen, qwen-lora)',
    )
    const one = { requests: 1, keys: 1, models: 1, key_names: ['ada'], model_names: ['qwen'] }
    expect(hurts({ ...two, requests: 0, gave_up: one })).toBe('1 client gave up since then (key ada)')
    expect(hurts({ ...one, key_names: ['open'] })).toBe('1 client waits')
  })

  it('the list of concerns names an engine that does not move, with what the gateway has done and since when', () => {
    const wedged = { condition: 'wedged', condition_since: 77, rescued_total: 3, requests: 1 } as const
    const [concern] = concerns({ ...wedged, available: false, healthy: true })
    expect(concern).toMatchObject({ tone: 'bad', subject: 'a', help: 'wedged', at: 77 })
    expect(concern!.reason).toContain('it gets no requests; 1 request there, 3 moved to other engines')
    expect(concerns({ ...wedged, available: true })[0]!.reason).toContain('a limit of ejection keeps it in use')
  })

  it('the list of concerns names a region that does not answer, since its last digest', () => {
    const [concern] = concerns({ available: false, healthy: false }, { gateway: silentRegion, at: 10_000 })
    expect(concern).toMatchObject({ tone: 'bad', subject: 'a', help: 'region', at: 6_000 })
    expect(concern!.reason).toBe('the gateway of this region does not answer, so it gets no requests')
  })

  it('the list of concerns names a pool of which half of the engines are wedged together', () => {
    const ofPool = (count: number) =>
      concerns({}, { engines: wedgedEngines(count) }).filter(({ help }) => help === 'stalled')
    expect(ofPool(1)).toEqual([])
    expect(ofPool(2)).toMatchObject([
      { tone: 'bad', subject: 'c m', reason: '2 of 4 engines are wedged at the same time' },
    ])
  })

  it('the list of concerns names an engine whose answers stand out, since when, and not one that only disagreed', () => {
    const compared = { total: 40, disagreed: 30, stands_out_since: 88 }
    const [concern] = concerns({ compared, available: false })
    expect(concern).toMatchObject({ tone: 'bad', help: 'disagrees', at: 88 })
    expect(concern!.reason).toContain('30 of 40 comparisons; it gets no requests')
    expect(found({ compared: { ...compared, stands_out_since: null } })).toEqual([])
  })

  it('lists slow and saturated engines without an objective', () => {
    expect(found({ condition: 'slow' })).toMatchObject([['a', 'warn', expect.stringContaining('siblings')]])
    expect(found({ condition: 'slow', available: false })).toMatchObject([
      ['a', 'warn', expect.stringContaining('it gets only requests that no other engine can serve')],
    ])
    expect(found({ condition: 'saturated' })).toMatchObject([['a', 'warn', expect.stringContaining('full')]])
    expect(found({ condition: 'suspect' })).toEqual([])
  })

  it('the list of concerns names each problem with its reason, the most severe first', () => {
    expect(found({ healthy: false })).toEqual([['a', 'bad', 'health checks fail']])
    expect(found({ circuit: 'open', failures_total: 7 })).toEqual([['a', 'bad', 'circuit open after 7 failures']])
    expect(found({ healthy: false, problem: 'status_503' })).toEqual([['a', 'bad', 'health checks fail (status 503)']])
    expect(found({ circuit: 'open', failures_total: 1, last_failure: { failure: 'reset', at: 1 } })).toEqual([
      ['a', 'bad', 'circuit open after 1 failure, the last one: connection closed by the engine'],
    ])
    expect(found({ circuit: 'half_open', failures_total: 7 })).toEqual([
      ['a', 'bad', 'circuit half-open after 7 failures'],
    ])
    expect(
      found({ learned: { silent_miss: ['prefix caching is off'] } as unknown as Learned }, { reachable: false }),
    ).toEqual([
      ['c m', 'bad', 'the state object of the pool cannot be reached'],
      ['a', 'warn', 'cache hits are predicted but never reported: prefix caching is off'],
    ])
    expect(found({ kv_feed: { state: 'silent', changes: 0, resyncs: 0, lag_ms: 0 } })).toEqual([
      ['a', 'warn', 'KV events stopped'],
    ])
    expect(found({ stats: { age_ms: 90_000 } as Stats })).toEqual([['a', 'warn', 'its metrics are 90 s old']])
    expect(found({ stats: { age_ms: 59_000 } as Stats })).toEqual([])
    expect(found({}, {}, { config_refused_at: 5, config_version: 3 })).toEqual([
      ['configuration', 'bad', 'the newest one is invalid and was refused; version 3 stays active'],
    ])
    expect(found({ last_failure: { failure: 'loop', at: 1 } }, { at: 2 })).toMatchObject([
      ['a', 'bad', expect.stringContaining('leads back')],
    ])
    const replicas = [{ host: 'gw-2', state: 'away' }] as unknown as NonNullable<View['replicas']>
    expect(found({}, {}, { replicas })).toMatchObject([['gw-2', 'bad', expect.stringContaining('replica unreachable')]])
  })

  it('the list of concerns keeps the start of a lasting problem, and forgets it when it ends', () => {
    const problem = (key: string) =>
      ({ key, tone: 'bad', subject: key, reason: '', next: '', href: null, help: 'x' }) as const
    const first = sinceOf(null, [problem('old')], 1)
    const second = sinceOf(first, [problem('old'), problem('new')], 2)
    expect(Object.fromEntries(second)).toEqual({
      old: { at: 1, isAtLeast: true },
      new: { at: 2, isAtLeast: false },
    })
    expect(Object.fromEntries(sinceOf(sinceOf(second, [], 3), [problem('old')], 4))).toEqual({
      old: { at: 4, isAtLeast: false },
    })
  })
})
