import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { toPoolConfig } from '../../src/config/to-pool-config.ts'
import { toTargets } from '../../src/config/engine-targets.ts'
import { summarise } from '../../src/config/summary.ts'

const config = parseConfig(
  {
    clusters: [
      {
        id: 'one',
        pools: [
          {
            model: 'org/m',
            policy: { name: 'random' },
            engines: [
              {
                id: 'a',
                url: 'http://10.0.0.1:8000/base/',
                key: 'hush',
                headers: { 'X-Token': 'hush2' },
                binding: 'VPC',
              },
              { id: 'b', url: 'http://10.0.0.2:8000' },
            ],
          },
        ],
      },
    ],
  },
  {},
  { defaultVersion: 1, defaultObserveShare: 1, listens: true },
)
const [cluster] = config.clusters
const [pool] = cluster!.pools

describe('toPoolConfig', () => {
  it('toPoolConfig has the names of cluster, pool and engines', () => {
    expect(toPoolConfig(cluster!, pool!)).toMatchObject({
      cluster: 'one',
      pool: 'org/m',
      policy: { name: 'random', options: {} },
      engines: [{ id: 'a' }, { id: 'b' }],
    })
  })

  it('toPoolConfig splits by default if a pool has prefill engines; check notes `never`', () => {
    const read = (split: object) =>
      parseConfig(
        {
          clusters: [
            {
              id: 'one',
              pools: [
                {
                  model: 'm',
                  split,
                  engines: [
                    { id: 'p', url: 'http://p', role: 'prefill' },
                    { id: 'd', url: 'http://d', role: 'decode' },
                  ],
                },
              ],
            },
          ],
        },
        {},
        { defaultVersion: 1, defaultObserveShare: 1, listens: true },
      )
    const modeOf = (split: object) =>
      toPoolConfig(read(split).clusters[0]!, read(split).clusters[0]!.pools[0]!).split.mode
    expect(modeOf({})).toBe('always')
    expect(modeOf({ mode: 'never' })).toBe('never')
    expect(summarise(read({})).notes.join()).not.toContain('prefill engines receive no requests')
    expect(summarise(read({ mode: 'never' })).notes.join()).toContain('prefill engines receive no requests')
    // A threshold alone looks like `mode: threshold`.
    expect(summarise(read({ threshold_tokens: 4096 })).notes.join()).toContain(
      '`split.threshold_tokens` has no effect with `split.mode: always`. Set `threshold` or `uncached`.',
    )
    for (const mode of ['threshold', 'uncached'])
      expect(summarise(read({ mode, threshold_tokens: 4096 })).notes.join()).not.toContain('threshold_tokens')
  })

  it('toPoolConfig does not send a key that is not listed', () => {
    const [engine] = pool!.engines
    const later = { ...pool!, edgeOnly: 1, engines: [{ ...engine!, edgeOnly: 1 }] }
    const sent = toPoolConfig(cluster!, { ...later, split: { ...pool!.split, edgeOnly: 1 } } as typeof later)
    expect(JSON.stringify(sent)).not.toContain('edgeOnly')
    expect(Object.keys(sent).sort()).toEqual([
      'blockTokens',
      'circuit',
      'cluster',
      'engines',
      'indexEntries',
      'leaseMs',
      'maxWaiting',
      'policy',
      'pool',
      'queue',
      'retry',
      'shadow',
      'slo',
      'split',
      'statsIntervalMs',
    ])
    expect(sent.retry).toEqual({ share: 0.2, minPerS: 1 })
  })

  it('toPoolConfig has neither addresses nor secrets', () => {
    const text = JSON.stringify(toPoolConfig(cluster!, pool!))
    expect(text).not.toContain('hush')
    expect(text).not.toContain('10.0.0')
  })
})

describe('toTargets', () => {
  it('toTargets returns base URLs without a trailing slash, and lower-case headers with the key', () => {
    expect(toTargets(pool!).get('a')).toEqual({
      kind: 'server',
      id: 'a',
      url: 'http://10.0.0.1:8000/base',
      model: 'org/m',
      headers: ['x-token', 'hush2', 'authorization', 'Bearer hush'],
      binding: 'VPC',
    })
    expect(toTargets(pool!).get('b')).toEqual({
      kind: 'server',
      id: 'b',
      url: 'http://10.0.0.2:8000',
      model: 'org/m',
      headers: [],
      binding: null,
    })
  })
})

describe('hedge_ms', () => {
  const read = (hedge_ms: unknown, heartbeat_ms = 15_000) =>
    parseConfig(
      {
        limits: { heartbeat_ms },
        clusters: [
          {
            id: 'one',
            pools: [
              {
                model: 'm',
                ...(hedge_ms === undefined ? {} : { retry: { hedge_ms } }),
                engines: [
                  { id: 'a', url: 'http://a' },
                  { id: 'b', url: 'http://b' },
                ],
              },
            ],
          },
        ],
      },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens: true },
    )
  const hedged = (hedge_ms: unknown) => summarise(read(hedge_ms)).clusters[0]!.pools[0]!.settings['hedged']

  it('hedge_ms is off unless it is set', () => {
    expect(read(undefined).clusters[0]!.pools[0]!.retry.hedgeMs).toBe('off')
    expect(hedged(undefined)).toBeUndefined()
  })

  it('hedge_ms is auto or a time, and check says which', () => {
    expect(hedged('auto')).toBe('streams whose first byte is later than predicted')
    expect(hedged(800)).toBe('after 800 ms')
  })

  const rule = 'must be off, auto, or a number of milliseconds from 1 to 600000'
  it.each([
    ['soon', rule],
    [1.5, rule],
    [true, rule],
    [0, 'must be at least 1'],
    [600_001, 'must be at most 600000'],
  ])('hedge_ms rejects %j', (value, problem) => {
    expect(() => read(value)).toThrow(`retry.hedge_ms: ${JSON.stringify(value)}: ${problem}`)
  })

  it('hedge_ms is noted if heartbeats begin before it', () => {
    const note = '`retry.hedge_ms` is not below `limits.heartbeat_ms`'
    expect(summarise(read(15_000)).notes.join()).toContain(note)
    expect(summarise(read(14_999)).notes.join()).not.toContain(note)
    expect(summarise(read(20_000, 0)).notes.join()).not.toContain(note)
    expect(summarise(read('auto')).notes.join()).not.toContain(note)
  })
})
