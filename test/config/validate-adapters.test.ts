import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { summarisePool } from '../../src/config/pool-summary.ts'
import { toTargets } from '../../src/config/engine-targets.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { toPoolConfig } from '../../src/config/to-pool-config.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }
const ENGINE = { id: 'a', url: 'http://10.0.0.1:8000' }

function parsed(adapters: unknown, pool: object = {}): Config {
  const pools = [{ model: 'm', aliases: ['chat'], engines: [ENGINE], adapters, ...pool }]
  return parseConfig({ open: true, clusters: [{ id: 'c', pools }] }, {}, options)
}

function problemsOf(adapters: unknown, pool?: object): readonly string[] {
  try {
    parsed(adapters, pool)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(
      ({ path, rule, value }) => `${path.replace('clusters[0].pools[0].', '')} ${value}: ${rule}`,
    )
  }
  return []
}

describe('adapters', () => {
  it('adapters that are a list of names are not loaded on demand', () => {
    const [cluster] = parsed(['sql']).clusters
    const [pool] = cluster!.pools
    expect(pool).toMatchObject({ adapters: ['sql'], adapterLoading: null })
    expect(toPoolConfig(cluster!, pool!)).not.toHaveProperty('adapterLoading')
  })

  it('adapters that engines report have no names in the configuration, and keys may name any', () => {
    const key = { name: 'one', secret: 'secret-of-one', models: ['sql'] }
    const config = (adapters: unknown) =>
      parseConfig(
        { keys: [key], clusters: [{ id: 'c', pools: [{ model: 'm', engines: [ENGINE], adapters }] }] },
        {},
        options,
      )
    const [cluster] = config('auto').clusters
    const [pool] = cluster!.pools
    expect(pool).toMatchObject({ adapters: [], reportsAdapters: true, adapterLoading: null })
    expect(toPoolConfig(cluster!, pool!)).toMatchObject({ reportsAdapters: true })
    expect(toTargets(pool!).get('a')).toMatchObject({ hasAdapters: true, reportsAdapters: true })
    expect(summarisePool(pool!).settings).toMatchObject({ adapters: 'those that engines have loaded' })
    expect(() => config(['poet'])).toThrow('is served by no pool')
    expect(toPoolConfig(cluster!, { ...pool!, reportsAdapters: false })).not.toHaveProperty('reportsAdapters')
  })

  it.each(['all', 'AUTO', { names: 'auto' }, [['sql']]])('adapters that are %j are refused', (adapters) => {
    expect(problemsOf(adapters).join()).toMatch(/^adapters/)
  })

  it('adapters that may be loaded have a path each, and the pool state gets none of them', () => {
    const names = ['sql', { name: 'org/code', path: 'org/code-lora', base: 'chat' }]
    const [cluster] = parsed({ names, load: true, path: '/adapters/{name}', max_per_engine: 3 }).clusters
    const [pool] = cluster!.pools
    expect(pool!.adapters).toEqual(['sql', 'org/code'])
    expect(pool!.adapterLoading).toEqual({
      sources: { sql: '/adapters/sql', 'org/code': 'org/code-lora' },
      maxPerEngine: 3,
      loadMs: 60_000,
    })
    const { adapterLoading } = toPoolConfig(cluster!, pool!)
    expect(adapterLoading).toEqual({ adapters: ['sql', 'org/code'], maxPerEngine: 3 })
  })

  it.each<[string, object, string, object?]>([
    [
      'base is another model',
      { names: [{ name: 'sql', base: 'other' }] },
      'adapters.names[0].base "other": must be the pool\'s model, m: an adapter works with its base model only',
    ],
    [
      'path is missing',
      { names: ['sql'], load: true },
      'adapters.names[0] "sql": has no path from which it could be loaded: set `path` of the adapters',
    ],
    [
      'common path is one folder',
      { names: ['sql', 'poet'], load: true, path: '/adapters/x' },
      'adapters.path "/adapters/x": must contain {name}, because it is that of several adapters',
    ],
    [
      'name leaves the folder',
      { names: ['../sql'], load: true, path: '/adapters/{name}' },
      'adapters.names[0] "../sql": must consist of letters, digits, ".", "_" and "-" to be part of a path; ' +
        'or give it a path of its own',
    ],
    ['path is not used', { names: ['sql'], path: '/a/{name}' }, 'adapters.path "/a/{name}": needs load: true'],
    ['own path is not used', { names: [{ name: 'sql', path: '/a' }] }, 'adapters.names[0].path "/a": needs load: true'],
    [
      'pool splits requests',
      { names: ['sql'], load: true, path: '/a/{name}' },
      'adapters.load true: needs engines of role any: split requests load no adapters',
      { engines: [ENGINE, { id: 'p', url: 'http://10.0.0.2:8000', role: 'prefill' }] },
    ],
  ])('an adapter whose %s stops the start', (_, adapters, problem, pool) => {
    expect(problemsOf(adapters, pool)).toEqual([problem])
  })

  it('adapters with an unknown key or a wrong number stop the start', () => {
    expect(problemsOf({ names: ['sql'], loads: true }).join()).toContain('load')
    expect(problemsOf({ names: ['sql'], load: true, path: '/{name}', max_per_engine: 0 }).join()).toContain('1')
  })
})
