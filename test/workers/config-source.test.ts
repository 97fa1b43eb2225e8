import { describe, expect, it, vi } from 'vitest'
import { ConfigSource, type ConfigEnv, type LoadedConfig } from '../../src/platform/workers/config-source.ts'

const documentOf = (id: string, version?: number) =>
  JSON.stringify({
    ...(version === undefined ? {} : { version }),
    open: true,
    clusters: [{ id, pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://e' }] }] }],
  })

/** A KV namespace with the used methods. */
function kv(text: () => string | null | Error) {
  const get = vi.fn(async () => {
    const value = text()
    if (value instanceof Error) throw value
    return value
  })
  return { env: { CONFIG: { get } } as unknown as ConfigEnv, get }
}

const clusterOf = (loaded: LoadedConfig) => ('config' in loaded ? loaded.config.clusters[0]!.id : loaded.problem)

describe('the configuration of a Worker', () => {
  it('the configuration of a Worker is read from the variable before the namespace, and parsed once', async () => {
    const { env, get } = kv(() => documentOf('kv'))
    const source = new ConfigSource(() => 5)
    const first = await source.current({ ...env, FIRSTLIGHT_CONFIG: documentOf('var') }, () => {})
    expect(clusterOf(first)).toBe('var')
    expect(await source.current({ ...env, FIRSTLIGHT_CONFIG: documentOf('var') }, () => {})).toBe(first)
    expect(get).not.toHaveBeenCalled()
  })

  it('the configuration of a Worker is the bundled file, dated by the deployment, if neither a variable nor the namespace has it', async () => {
    const bundled = (text: string | null) => ({
      ASSETS: {
        fetch: async () => new Response(text, { status: text === null ? 404 : 200 }),
      } as ConfigEnv['ASSETS'] & {},
      CF_VERSION_METADATA: { timestamp: '2026-11-21T00:00:00Z' },
    })
    const read = async (env: ConfigEnv) => new ConfigSource(() => 42).current(env, () => {})
    const own = await read(bundled(documentOf('bundled')))
    expect([clusterOf(own), 'config' in own && own.config.version]).toEqual([
      'bundled',
      Date.parse('2026-11-21T00:00:00Z'),
    ])
    expect(clusterOf(await read({ ...bundled(documentOf('bundled')), ...kv(() => documentOf('kv')).env }))).toBe('kv')
    expect(clusterOf(await read({ ...bundled(documentOf('bundled')), ...kv(() => null).env }))).toBe('bundled')
    expect(await read(bundled(null))).toEqual({ problem: 'missing' })
  })

  it('the configuration of a Worker is the part of its region in one document', async () => {
    const gateway = { url: 'http://paris', key: 'k' }
    const pools = [{ model: 'm', engines: [{ id: 'e', url: 'http://e' }] }]
    const text = JSON.stringify({ keys: [{ name: 'a', secret: 'b' }], clusters: [{ id: 'paris', gateway, pools }] })
    const read = async (env: ConfigEnv) => {
      const loaded = await new ConfigSource(() => 1).current({ FIRSTLIGHT_CONFIG: text, ...env }, () => {})
      return 'config' in loaded ? loaded.config : null
    }
    const [edge, region] = [await read({}), await read({ FIRSTLIGHT_REGION: 'paris' })]
    expect(edge).toMatchObject({ keys: [{ name: 'a' }], clusters: [{ gateway: { url: 'http://paris' } }] })
    expect(region).toMatchObject({ keys: [{ name: 'edge', edge: true }], clusters: [{ gateway: null }] })
  })

  it('the configuration of a Worker has its own version, else the deployment’s, else the time', async () => {
    const versionOf = async (env: ConfigEnv) => {
      const loaded = await new ConfigSource(() => 42).current(env, () => {})
      return 'config' in loaded ? loaded.config.version : null
    }
    const CF_VERSION_METADATA = { timestamp: '2026-11-21T00:00:00Z' }
    expect(await versionOf({ FIRSTLIGHT_CONFIG: documentOf('c', 9), CF_VERSION_METADATA })).toBe(9)
    expect(await versionOf({ FIRSTLIGHT_CONFIG: documentOf('c'), CF_VERSION_METADATA })).toBe(
      Date.parse('2026-11-21T00:00:00Z'),
    )
    expect(await versionOf({ FIRSTLIGHT_CONFIG: documentOf('c') })).toBe(42)
    expect(await versionOf(kv(() => documentOf('c')).env)).toBe(42)
  })

  it('changes behind a response, and keeps the last valid one', async () => {
    let now = 0
    let text: string | null | Error = documentOf('one')
    const { env } = kv(() => text)
    const source = new ConfigSource(() => now)
    const later: Promise<unknown>[] = []
    const current = () => source.current(env, (work) => void later.push(work))
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    const first = await current()
    for (const next of ['clusters: nonsense', null, new Error('KV is away'), documentOf('one')]) {
      text = next
      now += 60_000
      expect(await current()).toBe(first)
      await Promise.all(later.splice(0))
      expect(await current()).toBe(first)
    }
    text = documentOf('two')
    now += 60_000
    expect(clusterOf(await current())).toBe('one')
    await Promise.all(later.splice(0))
    expect(clusterOf(await current())).toBe('two')
    errors.mockRestore()
  })

  it('the configuration of a Worker that is missing or wrong is looked for again with every request', async () => {
    let text: string | null = null
    const { env } = kv(() => text)
    const source = new ConfigSource(() => 0)
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    expect(await source.current(env, () => {})).toEqual({ problem: 'missing' })
    text = 'clusters: []'
    expect(clusterOf(await source.current(env, () => {}))).toMatch(/clusters/)
    text = documentOf('ok')
    expect(clusterOf(await source.current(env, () => {}))).toBe('ok')
    errors.mockRestore()
  })

  it('the configuration of a Worker is one object for all requests during a read, also with hashed keys', async () => {
    const { open: _, ...closed } = JSON.parse(documentOf('c')) as Record<string, unknown>
    const env = {
      FIRSTLIGHT_CONFIG: JSON.stringify({ ...closed, keys: [{ name: 'a', secret: { sha256: '0'.repeat(64) } }] }),
    }
    const source = new ConfigSource(() => 0)
    const [first, ...others] = await Promise.all(Array.from({ length: 4 }, () => source.current(env, () => {})))
    expect(clusterOf(first!)).toBe('c')
    for (const other of [...others, await source.current(env, () => {})]) expect(other).toBe(first)
  })

  it('the configuration of a Worker is wrong when a key is given twice, once as its hash, or is the admin key too', async () => {
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    const HASH_OF_S = '043a718774c572bd8a25adbeb1bfcd5c0256ae11cecf9f9c3f925d0e52beaf89'
    const problemOf = async (more: object) => {
      const { open: _, ...closed } = JSON.parse(documentOf('c')) as Record<string, unknown>
      return clusterOf(
        await new ConfigSource(() => 0).current(
          { FIRSTLIGHT_CONFIG: JSON.stringify({ ...closed, ...more }) },
          () => {},
        ),
      )
    }
    const plain = { name: 'a', secret: 's' }
    const hashed = { name: 'b', secret: { sha256: HASH_OF_S } }
    expect(await problemOf({ keys: [plain, hashed] })).toMatch(/keys\[1\]\.secret: is also the secret of keys\[0\]/)
    expect(await problemOf({ keys: [hashed], admin: { secret: 's' } })).toMatch(
      /keys\[0\]\.secret: is also the secret of admin/,
    )
    expect(await problemOf({ keys: [hashed], admin: { secret: 'boss' } })).toBe('c')
    errors.mockRestore()
  })
})
