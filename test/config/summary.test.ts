import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const engines = [
  { id: 'a', url: 'http://a' },
  { id: 'b', url: 'http://b' },
]

const summaryOf = (document: object, pool: object = {}) =>
  summarise(
    parseConfig(
      { ...document, clusters: [{ id: 'c', pools: [{ model: 'm', engines, ...pool }] }] },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens: true },
    ),
  )
const poolOf = (pool: object) => summaryOf({}, pool).clusters[0]!.pools[0]!.settings

describe('the summary of a configuration', () => {
  it('the summary of a configuration names nothing of overload control and continuation that is not configured', () => {
    expect(Object.keys(poolOf({}))).toEqual(['policy', 'tokens', 'limits', 'probes', 'retries', 'sessions'])
  })

  it('the summary of a configuration names the objectives of latency', () => {
    const slo = { ttft_ms: 800, ttft_ms_per_1k_tokens: 100, itl_ms: 50 }
    expect(poolOf({ slo })).toMatchObject({ slo: 'first token 800 ms + 100 ms per 1,000 tokens, between tokens 50 ms' })
    expect(poolOf({ slo: { itl_ms: 50 } })).toMatchObject({ slo: 'between tokens 50 ms' })
  })

  it('the summary of a configuration names the queue', () => {
    expect(poolOf({ queue: { max_requests: 8, max_wait_ms: 3000 } })).toMatchObject({ queue: '8 requests, up to 3 s' })
  })

  it('the summary of a configuration names how streams are continued', () => {
    expect(poolOf({ retry: { mid_stream: 'ids' } })).toMatchObject({ continued: 'by token ids, 1 time a stream' })
    expect(poolOf({ retry: { mid_stream: 'replay', mid_stream_max: 3 } })).toMatchObject({
      continued: 'by token ids or by repetition, 3 times a stream',
    })
  })

  it('the summary of a configuration names limits of all keys, and class and limits of one', () => {
    const secret = 'sk-0123456789abcdef0123456789abcdef'
    const summary = summaryOf({
      key_limits: { requests_per_min: 60, concurrent: 4 },
      keys: [{ name: 'batch', secret, class: 'sheddable', limits: { tokens_per_day: 9000 } }],
    })
    expect(summary.settings['each key']).toBe('60 requests a minute, 4 at the same time')
    expect(summary.callers).toBe('batch (all models; sheddable; 9000 tokens a day)')
  })

  it('the summary of a configuration names the times of each secret of a key, and no secret', () => {
    const secrets = [
      { secret: 'sk-old-0123456789abcdef0123456789', expires: '2027-02-07' },
      { secret: 'sk-new-0123456789abcdef0123456789', from: '2027-01-31' },
      { secret: 'sk-all-0123456789abcdef0123456789' },
    ]
    expect(summaryOf({ keys: [{ name: 'a', secrets }] }).callers).toBe(
      'a (all models; 3 secrets: until 2027-02-07, from 2027-01-31, at any time)',
    )
  })
})
