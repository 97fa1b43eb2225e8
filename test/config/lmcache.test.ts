import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const read = (lmcache: object, more: object = {}) =>
  parseConfig(
    {
      ...more,
      clusters: [
        {
          id: 'one',
          pools: [{ model: 'm', policy: 'kv_aware', lmcache, engines: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }],
        },
      ],
    },
    { TUNNEL: 'tunnel-token', REPORT: 'report-token' },
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
const pool = (lmcache: object) => read(lmcache).clusters[0]!.pools[0]!

describe('lmcache', () => {
  it('`lmcache` has a default budget, detects the rest, and reads its secrets from the environment', () => {
    expect(pool({ coordinator: 'http://10.0.0.9:9300/', headers: { 'X-Tunnel': { env: 'TUNNEL' } } }).lmcache).toEqual({
      coordinator: 'http://10.0.0.9:9300',
      controller: null,
      registry: false,
      budgetMs: 30,
      shared: false,
      headers: { 'X-Tunnel': 'tunnel-token' },
      binding: null,
      model: null,
      worldSize: null,
      chunkTokens: 256,
      token: null,
    })
    expect(pool({ registry: true, token: { env: 'REPORT' } }).lmcache?.token).toBe('report-token')
  })

  it.each([
    [
      'a secret that is not set',
      { coordinator: 'http://h', headers: { 'x-tunnel': { env: 'NOT_THERE' } } },
      /headers.*NOT_THERE/,
    ],
    ['no ranks at all', { coordinator: 'http://h', world_size: 0 }, /world_size/],
    ['a URL with the path of an API', { coordinator: 'http://h/v1' }, /without \/v1/],
  ])('`lmcache` refuses %s', (_, lmcache, message) => {
    expect(() => read(lmcache)).toThrow(message)
  })

  it('`lmcache` is summarised without secrets, with a note if no server could report', () => {
    const summary = summarise(read({ registry: true, shared: true, token: { env: 'REPORT' } }))
    expect(summary.clusters[0]!.pools[0]!.settings['lmcache']).toBe(
      "servers report to this gateway; engines read each other's cache",
    )
    expect(JSON.stringify(summary)).not.toContain('report-token')
    expect(summarise(read({ registry: true }, { open: true })).notes.join()).toContain('no LMCache server can report')
    expect(summarise(read({ registry: true, token: 'abc' }, { open: true })).notes.join()).not.toContain(
      'no LMCache server can report',
    )
    expect(summarise(read({ coordinator: 'http://h:1' })).clusters[0]!.pools[0]!.settings['lmcache']).toBe(
      'coordinator http://h:1, 30 ms',
    )
  })
})
