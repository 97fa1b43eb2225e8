import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createPolicy, policyKinds } from '../../src/core/routing/policies/policies.ts'
import { ConfigError, type Problem } from '../../src/config/problem.ts'
import { parseConfig, parseConfigText } from '../../src/config/parse.ts'
import type { ParseOptions } from '../../src/config/parse-options.ts'

const node: ParseOptions = { defaultVersion: 7, defaultObserveShare: 1, listens: true }
const workers: ParseOptions = { defaultVersion: 7, defaultObserveShare: 0.1, listens: false }

const engine = (over: object = {}) => ({ id: 'a', url: 'http://10.0.0.1:8000', ...over })
const pool = (over: object = {}) => ({ model: 'org/m', engines: [engine()], ...over })
const document = (over: object = {}) => ({ clusters: [{ id: 'one', pools: [pool()] }], ...over })
const withPool = (over: object) => document({ clusters: [{ id: 'one', pools: [pool(over)] }] })
const withEngine = (over: object) => withPool({ engines: [engine(over)] })

/** Default split mode of a pool with engines of these roles. */
function splitOf(...roles: string[]): string {
  const engines = roles.map((role, index) => engine({ id: `e${index}`, url: `http://h${index}`, role }))
  return parseConfig(withPool({ engines }), {}, node).clusters[0]!.pools[0]!.split.mode
}

function problems(input: unknown, env = {}, options = node): readonly Problem[] {
  try {
    parseConfig(input, env, options)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

/** The only problem of a document, as [path, value, rule]. */
function only(input: unknown, env = {}, options = node): [string, string | null, string] {
  const all = problems(input, env, options)
  expect(all.map(({ path, rule }) => `${path}: ${rule}`)).toHaveLength(1)
  return [all[0]!.path, all[0]!.value, all[0]!.rule]
}

describe('a configuration', () => {
  it('a configuration requires only a cluster, a model and an engine', () => {
    const config = parseConfig(document(), {}, node)
    expect(config.listen).toEqual({ host: '127.0.0.1', port: 8080 })
    expect(config.version).toBe(7)
    expect(config.loopback).toBe(true)
    expect(config.clusters[0]!.pools[0]!.engines[0]).toMatchObject({
      id: 'a',
      url: 'http://10.0.0.1:8000',
      role: 'any',
      weight: 1,
    })
  })

  it('a configuration is the same in YAML and in JSON', () => {
    const yaml =
      'clusters:\n  - id: one\n    pools:\n      - model: org/m\n        engines: [{ id: a, url: "http://10.0.0.1:8000" }]\n'
    expect(parseConfigText(yaml, {}, node)).toEqual(parseConfig(document(), {}, node))
    expect(parseConfigText(JSON.stringify(document()), {}, node)).toEqual(parseConfig(document(), {}, node))
  })

  it('a configuration prefers its own version and observe_share to those of the runtime', () => {
    expect(parseConfig(document({ version: 3 }), {}, node).version).toBe(3)
    expect(parseConfig(document(), {}, workers).clusters[0]!.pools[0]!.observeShare).toBe(0.1)
    expect(parseConfig(withPool({ observe_share: 0.5 }), {}, workers).clusters[0]!.pools[0]!.observeShare).toBe(0.5)
  })

  it.each(['sglang', 'mooncake'])(
    'a configuration names bootstrap ports of prefill engines only, with the connector %s',
    (connector) => {
      const engines = ['prefill', 'decode'].map((role) => engine({ id: role, url: `http://${role}`, role }))
      const split = (ports: object) =>
        withPool({ engines, split: { connector, [connector]: { bootstrap_ports: ports } } })
      expect(problems(split({ prefill: 9001 }))).toEqual([])
      const [path, , rule] = only(split({ decode: 9001 }))
      expect(path).toBe(`clusters[0].pools[0].split.${connector}.bootstrap_ports.decode`)
      expect(rule).toContain('is not a prefill engine of this pool')
      expect(only(split({ prefill: 0 }))[0]).toBe(`clusters[0].pools[0].split.${connector}.bootstrap_ports.prefill`)
    },
  )

  it('a configuration requires a receiver for every engine that may decode if LMCache transfers the cache', () => {
    const receiver = (port: number) => ({ host: 'h', init_ports: [port], alloc_ports: [port + 1] })
    const engines = ['prefill', 'decode', 'decode'].map((role, index) =>
      engine({ id: `${role}${index}`, url: `http://h${index}`, role }),
    )
    const split = (lmcache: object, some = engines) =>
      withPool({ engines: some, split: { connector: 'lmcache', lmcache } })
    const at = 'clusters[0].pools[0].split.lmcache'
    expect(only(split({}))[0]).toBe(at)
    expect(only(split({}))[2]).toContain('decode1, decode2')
    expect(only(split({ decoders: { decode1: receiver(1) } }))[2]).toContain('decode2')
    expect(only(split({ decoders: { decode1: receiver(1), decode2: receiver(1), decode3: receiver(1) } }))[0]).toBe(
      `${at}.decoders.decode3`,
    )
    expect(only(split({ decoder: receiver(1) }))[2]).toContain('2 decode engines')
    expect(only(split({ decoder: receiver(1), decoders: { decode1: receiver(1) } }))[2]).toContain('contradicts')
    expect(only(split({ decoder: { ...receiver(1), alloc_ports: [1, 2] } }, engines.slice(0, 2)))[2]).toContain(
      '1 init_ports and 2 alloc_ports',
    )
    expect(problems(split({ decoders: { decode1: receiver(1), decode2: receiver(3) } }))).toEqual([])
    const { receivers } = parseConfig(split({ decoder: receiver(5) }, engines.slice(0, 2)), {}, node).clusters[0]!
      .pools[0]!.split.lmcache
    expect(receivers).toEqual({ decode1: { host: 'h', initPorts: [5], allocPorts: [6] } })
    // Without a split, no receiver is required.
    expect(problems(withPool({ split: { connector: 'lmcache' } }))).toEqual([])
    // With a split, engines of any role prefill for those that decode.
    const mixed = ['any', 'decode'].map((role, index) =>
      engine({ id: `${role}${index}`, url: `http://h${index}`, role }),
    )
    expect(only(withPool({ engines: mixed, split: { connector: 'lmcache', mode: 'always' } }))[2]).toContain(
      'any0, decode1',
    )
    expect(problems(withPool({ engines: mixed, split: { connector: 'lmcache' } }))).toEqual([])
    expect(problems(withPool({ engines: mixed, split: { connector: 'lmcache', mode: 'never' } }))).toEqual([])
  })

  it('a configuration splits by default exactly when there are prefill engines', () => {
    expect(splitOf('any', 'any')).toBe('never')
    expect(splitOf('any', 'decode')).toBe('never')
    expect(splitOf('prefill', 'decode')).toBe('always')
  })

  it('a configuration accepts every policy by name, with all its options at their defaults', () => {
    for (const { name, options } of policyKinds) {
      const written = Object.fromEntries(
        Object.entries(options).map(([option, spec]) => [
          option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
          spec.default,
        ]),
      )
      const given = Object.fromEntries(Object.entries(options).map(([option, spec]) => [option, spec.default]))
      const policyOf = (policy: unknown) => parseConfig(withPool({ policy }), {}, node).clusters[0]!.pools[0]!.policy
      expect(policyOf(name)).toEqual({ name, options: {} })
      expect(policyOf({ name, ...written })).toEqual({ name, options: given })
      expect(createPolicy(policyOf({ name, ...written }))).toHaveProperty('policy')
    }
  })

  it('a configuration reports every problem at once', () => {
    const all = problems(document({ listen: 'here', clusters: [{ id: 'a b', pools: [pool({ block_tokens: 0 })] }] }))
    expect(all.map(({ path }) => path).sort()).toEqual([
      'clusters[0].id',
      'clusters[0].pools[0].block_tokens',
      'listen',
    ])
  })

  it('a configuration reports the line of an error in a text', () => {
    const text =
      'listen: 127.0.0.1:8080\nclusters:\n  - id: one\n    pools:\n      - model: m\n        block_tokens: many\n        engines: [{ id: a, url: http://h }]\n'
    expect(() => parseConfigText(text, {}, node)).toThrow(
      'line 6: clusters[0].pools[0].block_tokens: "many": must be a number',
    )
  })

  it('a configuration reports the line at which YAML is invalid', () => {
    expect(() => parseConfigText('a: [1,\nb: 2', {}, node)).toThrow(/line 2: is not YAML or JSON/)
  })

  it('a configuration rejects duplicate keys', () => {
    expect(() => parseConfigText('listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\nclusters: []\n', {}, node)).toThrow(
      /line 2: .*duplicated/i,
    )
  })

  it('a configuration rejects aliases that expand without limit', () => {
    const levels = Array.from(
      { length: 9 },
      (_, n) => `l${n + 1}: &l${n + 1} [${Array.from({ length: 9 }, () => `*l${n}`).join(', ')}]`,
    )
    expect(() => parseConfigText(['l0: &l0 x', ...levels].join('\n'), {}, node)).toThrow(ConfigError)
  })
})

describe('a wrong value', () => {
  it.each([
    ['an unknown key, with the one meant', document({ listn: 'x' }), 'listn', '"x"', 'did you mean "listen"?'],
    [
      'camelCase',
      withPool({ blockTokens: 64 }),
      'clusters[0].pools[0].blockTokens',
      '64',
      'did you mean "block_tokens"?',
    ],
    ['an unknown key with nothing near it', document({ zzzzzz: 1 }), 'zzzzzz', '1', 'known keys: version, listen'],
    [
      'a missing key',
      { clusters: [{ id: 'one', pools: [{ engines: [engine()] }] }] },
      'clusters[0].pools[0].model',
      null,
      'is required',
    ],
    [
      'a role',
      withEngine({ role: 'prefil' }),
      'clusters[0].pools[0].engines[0].role',
      '"prefil"',
      'did you mean "prefill"?',
    ],
    [
      'a policy',
      withPool({ policy: 'leastloaded' }),
      'clusters[0].pools[0].policy',
      '"leastloaded"',
      'did you mean "least_loaded"?',
    ],
    [
      'a policy with options',
      withPool({ policy: { name: 'rnd' } }),
      'clusters[0].pools[0].policy.name',
      '"rnd"',
      'must be a policy',
    ],
    [
      'an option no policy has',
      withPool({ policy: { name: 'random', x: 1 } }),
      'clusters[0].pools[0].policy.x',
      '1',
      'is not a known key',
    ],
    [
      'an option out of range',
      withPool({ policy: { name: 'active_blocks', overlap_weight: -1 } }),
      'clusters[0].pools[0].policy.overlap_weight',
      '-1',
      'must be at least 0',
    ],
    [
      'an option of another policy',
      withPool({ policy: { name: 'active_blocks', min_match: 1 } }),
      'clusters[0].pools[0].policy.min_match',
      '1',
      'is not a known key',
    ],
    [
      'hardware nobody measured',
      withEngine({ profile: 'abacus' }),
      'clusters[0].pools[0].engines[0].profile',
      '"abacus"',
      'such as',
    ],
    ['a number as text', withPool({ lease_ms: '60s' }), 'clusters[0].pools[0].lease_ms', '"60s"', 'must be a number'],
    [
      'half a token',
      withPool({ block_tokens: 1.5 }),
      'clusters[0].pools[0].block_tokens',
      '1.5',
      'must be a whole number',
    ],
    [
      'a share above one',
      withPool({ observe_share: 2 }),
      'clusters[0].pools[0].observe_share',
      '2',
      'must be at most 1',
    ],
    ['no engines', withPool({ engines: [] }), 'clusters[0].pools[0].engines', null, 'at least 1'],
    ['a text for a list', document({ clusters: 'paris' }), 'clusters', '"paris"', 'must be a list'],
    [
      'a url without a scheme',
      withEngine({ url: '10.0.0.1:8000' }),
      'clusters[0].pools[0].engines[0].url',
      '"10.0.0.1:8000"',
      'must be a base URL',
    ],
    [
      'a url of another scheme',
      withEngine({ url: 'ftp://h' }),
      'clusters[0].pools[0].engines[0].url',
      '"ftp://h"',
      'only http and https',
    ],
    [
      'a url with /v1',
      withEngine({ url: 'http://h/v1/' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h/v1/"',
      'without /v1',
    ],
    ...['/v1/chat/completions', '/v1/messages', '/v1/models'].map((path): [string, unknown, string, string, string] => [
      `a url with ${path}`,
      withEngine({ url: `http://h/base${path}` }),
      'clusters[0].pools[0].engines[0].url',
      `"http://h/base${path}"`,
      `without ${path}: the gateway adds the path`,
    ]),
    [
      'a url with a query',
      withEngine({ url: 'http://h/?a=1' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h/?a=1"',
      'query',
    ],
    [
      'a url whose path only begins like the API’s',
      withEngine({ url: 'http://h/v1//' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h/v1//"',
      'without /v1',
    ],
    [
      'a url with a blank at its end',
      withEngine({ url: 'http://h:8000 ' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h:8000 "',
      'must be a base URL',
    ],
    [
      'a url with a line break in it',
      withEngine({ url: 'http://h:80\n00' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h:80\\n00"',
      'must be a base URL',
    ],
    [
      'a url with a blank in its path',
      withEngine({ url: 'http://h/a b' }),
      'clusters[0].pools[0].engines[0].url',
      '"http://h/a b"',
      'must be a base URL',
    ],
    [
      'a url with backslashes',
      withEngine({ url: 'http:\\\\h' }),
      'clusters[0].pools[0].engines[0].url',
      '"http:\\\\\\\\h"',
      'must be a base URL',
    ],
    [
      'a url without slashes',
      withEngine({ url: 'http:h:8000' }),
      'clusters[0].pools[0].engines[0].url',
      '"http:h:8000"',
      'must be a base URL',
    ],
    ['a port too high', document({ listen: '127.0.0.1:70000' }), 'listen', '"127.0.0.1:70000"', 'must be HOST:PORT'],
    [
      'an engine nobody can decode on',
      withEngine({ role: 'prefill' }),
      'clusters[0].pools[0].engines',
      null,
      'role any or decode',
    ],
    ['lmcache without a source', withPool({ lmcache: {} }), 'clusters[0].pools[0].lmcache', null, 'exactly one of'],
    [
      'lmcache engines on one host that do not say which instance is theirs',
      withPool({
        lmcache: { coordinator: 'http://h' },
        engines: [
          { id: 'a', url: 'http://h:8000', lmcache_instance: 'A' },
          { id: 'b', url: 'http://h:8001' },
        ],
      }),
      'clusters[0].pools[0].engines[1].lmcache_instance',
      null,
      'another engine has the host h too',
    ],
    [
      'lmcache with two sources',
      withPool({ lmcache: { coordinator: 'http://h', registry: true } }),
      'clusters[0].pools[0].lmcache',
      null,
      'exactly one of',
    ],
    [
      'a connection header',
      withEngine({ headers: { Host: 'x' } }),
      'clusters[0].pools[0].engines[0].headers.Host',
      null,
      'belongs to the connection',
    ],
    [
      'a connection header for LMCache',
      withPool({ lmcache: { coordinator: 'http://h', headers: { 'Content-Length': '5' } } }),
      'clusters[0].pools[0].lmcache.headers.Content-Length',
      null,
      'belongs to the connection',
    ],
    [
      'a header twice for the collector',
      document({ traces: { headers: { 'x-key': 'a', 'X-Key': 'b' } } }),
      'traces.headers.X-Key',
      null,
      'duplicates',
    ],
    [
      'a key with a space, which no `Bearer` carries',
      document({ keys: [{ name: 'k', secret: 'two words' }] }),
      'keys[0].secret',
      null,
      'without spaces',
    ],
    [
      'a header’s value that ends in a space',
      withEngine({ headers: { 'x-a': 'b ' } }),
      'clusters[0].pools[0].engines[0].headers.x-a',
      null,
      'without spaces at its ends',
    ],
    [
      'a model the pool has not',
      withEngine({ models: ['org/n'] }),
      'clusters[0].pools[0].engines[0].models[0]',
      '"org/n"',
      'did you mean "org/m"?',
    ],
    [
      'a key for a model nobody serves',
      document({ keys: [{ name: 'k', secret: 's', models: ['org/n'] }] }),
      'keys[0].models[0]',
      '"org/n"',
      'is served by no pool',
    ],
    [
      'less room for all bodies than for one',
      document({ limits: { body_bytes: 10_000, buffered_bytes: 5_000 } }),
      'limits.buffered_bytes',
      '5000',
      'at least limits.body_bytes, 10000',
    ],
    [
      'open and keys',
      document({ open: true, keys: [{ name: 'k', secret: 's' }] }),
      'open',
      'true',
      'contradicts `keys`',
    ],
    ['a document that is no mapping', [], '', null, 'must be a mapping'],
  ])('a wrong value is rejected: %s', (_, input, path, value, rule) => {
    const found = only(input)
    expect(found.slice(0, 2)).toEqual([path, value])
    expect(found[2]).toContain(rule)
  })
})

describe('a duplicate name', () => {
  const twoPools = (second: object) =>
    document({
      clusters: [
        {
          id: 'one',
          pools: [
            pool({ aliases: ['x'] }),
            { model: 'org/n', engines: [engine({ id: 'b', url: 'http://h2' })], ...second },
          ],
        },
      ],
    })

  it.each([
    [
      'a cluster',
      document({
        clusters: [
          { id: 'one', pools: [pool()] },
          { id: 'one', pools: [pool()] },
        ],
      }),
      'clusters[1].id',
    ],
    [
      'an engine in another pool',
      twoPools({ engines: [engine({ url: 'http://h2' })] }),
      'clusters[0].pools[1].engines[0].id',
    ],
    [
      'a server under two ids',
      withPool({ engines: [engine(), engine({ id: 'b', url: 'http://10.0.0.1:8000/' })] }),
      'clusters[0].pools[0].engines[1].url',
    ],
    ['a model', twoPools({ model: 'org/m' }), 'clusters[0].pools[1].model'],
    ['an alias of another pool', twoPools({ aliases: ['x'] }), 'clusters[0].pools[1].aliases[0]'],
    ['an adapter that is an alias', withPool({ aliases: ['x'], adapters: ['x'] }), 'clusters[0].pools[0].adapters[0]'],
    ['an alias that is the model', withPool({ aliases: ['org/m'] }), 'clusters[0].pools[0].aliases[0]'],
    [
      'a key name',
      document({
        keys: [
          { name: 'k', secret: 's1' },
          { name: 'k', secret: 's2' },
        ],
      }),
      'keys[1].name',
    ],
  ])('a duplicate name is rejected: %s', (_, input, path) => {
    expect(only(input)[0]).toBe(path)
  })

  it('a duplicate name is accepted for a model in two clusters, and for ranks of one address with different headers', () => {
    expect(
      problems(
        document({
          clusters: [
            { id: 'one', pools: [pool()] },
            { id: 'two', pools: [pool()] },
          ],
        }),
      ),
    ).toEqual([])
    const ranks = ['0', '1'].map((rank) => engine({ id: `r${rank}`, headers: { 'x-data-parallel-rank': rank } }))
    expect(problems(withPool({ engines: ranks }))).toEqual([])
  })
})

/** SHA-256 of `right`. */
const HASH = '27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9'

describe('limits.buffered_bytes', () => {
  const bytes = (limits: object, options: ParseOptions = node) =>
    parseConfig(document({ limits }), {}, options).limits.bufferedBytes

  it('limits.buffered_bytes is the configured value, else the default of the runtime, and at least one body', () => {
    expect(bytes({ buffered_bytes: 40_000_000 })).toBe(40_000_000)
    expect(bytes({})).toBe(268_435_456)
    expect(bytes({}, { ...workers, defaultBufferedBytes: 67_108_864 })).toBe(67_108_864)
    expect(bytes({ body_bytes: 300_000_000 })).toBe(300_000_000)
  })
})

describe('a secret', () => {
  it('a secret comes from the environment, for keys, engines and headers alike', () => {
    const input = document({
      keys: [{ name: 'k', secret: { env: 'A' }, cache_salt: { env: 'B' } }],
      admin: { secret: { env: 'C' } },
      clusters: [
        {
          id: 'one',
          pools: [pool({ engines: [engine({ key: { env: 'D' }, headers: { 'X-Token': { env: 'E' } } })] })],
        },
      ],
    })
    const config = parseConfig(input, { A: 'va', B: 'vb', C: 'vc', D: 'vd', E: 've' }, node)
    expect(config.keys).toMatchObject([{ secrets: [{ secret: 'va' }], cacheSalt: 'vb' }])
    expect(config.admin).toEqual({ secret: 'vc' })
    expect(config.clusters[0]!.pools[0]!.engines[0]).toMatchObject({ key: 'vd', headers: { 'X-Token': 've' } })
  })

  it.each([[{}], [{ VLLM: '' }], [{ VLLM: 5 }]])(
    'a secret stops the start when its variable is not there: %j',
    (env) => {
      expect(only(withEngine({ key: { env: 'VLLM' } }), env)).toEqual([
        'clusters[0].pools[0].engines[0].key.env',
        null,
        'names VLLM, which is not set in the environment',
      ])
    },
  )

  it('a secret never appears in an error, even if it is invalid', () => {
    const inputs = [
      document({ keys: [{ name: 'k', secret: 'hush\nhush' }] }),
      document({ keys: [{ name: 'k', secret: ['hush'] }] }),
      withEngine({ key: 'hush\u00e9' }),
      withEngine({ headers: { Host: 'hush' } }),
      withEngine({ url: 'http://user:hush@h' }),
      document({
        keys: [
          { name: 'a', secret: 'hush' },
          { name: 'b', secret: 'hush' },
        ],
      }),
      // A misspelt key, or an object in place of a string.
      document({ keys: [{ name: 'k', secret: 's', secrets: 'hush' }] }),
      withEngine({ api_key: 'hush' }),
      withEngine({ password: 'hush' }),
      document({ record: { file: 'f', salt: 'hush\n' } }),
    ]
    for (const input of inputs) {
      const reported = JSON.stringify(problems(input))
      expect(reported).toContain('path')
      expect(reported).not.toContain('hush')
    }
    expect(() => parseConfig(withEngine({ key: { env: 'V' } }), { V: 'hu\nsh' }, node)).toThrow(
      /names V, whose value is not printable ASCII/,
    )
  })

  it('from the environment has no spaces in a bearer token, but may have them in a header', () => {
    expect(only(withEngine({ key: { env: 'V' } }), { V: 'two words' })[2]).toContain('without spaces')
    expect(only(withEngine({ headers: { 'x-a': { env: 'V' } } }), { V: 'hush ' })[2]).toContain(
      'without spaces at its ends',
    )
    expect(
      parseConfig(withEngine({ headers: { authorization: { env: 'V' } } }), { V: 'Basic abc=' }, node).clusters[0]!
        .pools[0]!.engines[0]!.headers,
    ).toEqual({ authorization: 'Basic abc=' })
  })

  it('a secret that looks like a shell variable is rejected with the right syntax', () => {
    expect(only(withEngine({ key: '${VLLM_KEY}' }))[2]).toContain('{ env: NAME }')
  })

  it('a secret must be unique', () => {
    expect(
      only(
        document({
          keys: [
            { name: 'a', secret: 's' },
            { name: 'b', secret: 's' },
          ],
        }),
      )[0],
    ).toBe('keys[1].secret')
    expect(
      only(
        document({
          keys: [
            { name: 'a', secret: { sha256: HASH } },
            { name: 'b', secret: { sha256: HASH } },
          ],
        }),
      ),
    ).toEqual(['keys[1].secret', null, 'is also the secret of keys[0]'])
  })

  it('a secret must be unique, even if it is given once as plain text and once as a hash', () => {
    const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
    const plain = { name: 'a', secret: 's' }
    const hashed = { name: 'b', secret: { sha256: sha256('s') } }
    const found = (changes: object, env = {}) =>
      problems(document(changes), env, { ...node, sha256 }).map(({ path, value, rule }) => [path, value, rule])
    expect(found({ keys: [plain, hashed] })).toEqual([['keys[1].secret', null, 'is also the secret of keys[0]']])
    expect(found({ keys: [hashed, { ...plain, secret: { env: 'S' } }] }, { S: 's' })).toEqual([
      ['keys[1].secret', null, 'is also the secret of keys[0]'],
    ])
    for (const key of [plain, hashed]) {
      expect(found({ keys: [key], admin: { secret: 's' } })).toEqual([
        ['keys[0].secret', null, 'is also the secret of admin'],
      ])
      expect(found({ keys: [key], bridge: { secret: 's' } })).toEqual([
        ['keys[0].secret', null, 'is also the secret of bridge'],
      ])
    }
    expect(() =>
      parseConfig(
        document({
          keys: [plain, { ...hashed, secret: { sha256: sha256('t') } }],
          admin: { secret: 'boss' },
          bridge: { secret: 'boss' },
        }),
        {},
        { ...node, sha256 },
      ),
    ).not.toThrow()
  })

  it('a secret that is not set does not count as a duplicate', () => {
    expect(
      problems(
        document({
          keys: [
            { name: 'a', secret: { env: 'A' } },
            { name: 'b', secret: { env: 'B' } },
          ],
          admin: { secret: { env: 'C' } },
        }),
      ).map(({ path }) => path),
    ).toEqual(['keys[0].secret.env', 'keys[1].secret.env', 'admin.secret.env'])
  })

  it('a secret of a client may be written as its hash', () => {
    const { keys } = parseConfig(
      document({
        keys: [
          { name: 'a', secret: { sha256: HASH } },
          { name: 'b', secret: { env: 'B' } },
        ],
      }),
      { B: 'vb' },
      node,
    )
    expect(keys?.map(({ secrets }) => secrets[0]!.secret)).toEqual([{ sha256: HASH }, 'vb'])
  })

  it('a secret of a client may be several, with the times at which each is accepted', () => {
    const { keys } = parseConfig(
      document({
        keys: [
          { name: 'a', secret: 's', expires: '2027-01-31' },
          {
            name: 'b',
            secrets: [
              { secret: { env: 'OLD' }, expires: '2027-02-07' },
              { secret: { sha256: HASH }, from: '2027-01-31' },
            ],
          },
        ],
      }),
      { OLD: 'old' },
      node,
    )
    expect(keys?.map(({ secrets }) => secrets)).toEqual([
      [{ secret: 's', from: null, expires: '2027-01-31' }],
      [
        { secret: 'old', from: null, expires: '2027-02-07' },
        { secret: { sha256: HASH }, from: '2027-01-31', expires: null },
      ],
    ])
  })

  it.each([
    ['no secret', {}, 'keys[0]', 'has no secret: set `secret` or `secrets`'],
    ['an empty list', { secrets: [] }, 'keys[0].secrets', 'must have at least 1 entry'],
    [
      'one secret and a list',
      { secret: 's', secrets: [{ secret: 't' }] },
      'keys[0].secret',
      'contradicts `secrets`: leave one of them out',
    ],
    [
      'an end beside a list',
      { expires: '2027-01-31', secrets: [{ secret: 't' }] },
      'keys[0].expires',
      'applies to `secret` alone: set it in each of `secrets`',
    ],
    [
      'a secret that ends before it begins',
      { secrets: [{ secret: 's' }, { secret: 't', from: '2027-01-31', expires: '2027-01-30' }] },
      'keys[0].secrets[1].expires',
      'must be after `from` (2027-01-31)',
    ],
    [
      'a secret that stands twice',
      { secrets: [{ secret: 's' }, { secret: 's' }] },
      'keys[0].secrets[1].secret',
      'is also the secret of keys[0].secrets[0]',
    ],
  ])('a secret of a client is rejected in a key with %s', (_, key, path, rule) => {
    const [found, , why] = only(document({ keys: [{ name: 'k', ...key }] }))
    expect([found, why]).toEqual([path, rule])
  })

  it.each([
    ['a digit too few', { sha256: HASH.slice(1) }, 'keys[0].secret.sha256', 'must be 64 digits of 0-9a-f'],
    ['a digit too many', { sha256: `${HASH}0` }, 'keys[0].secret.sha256', 'must be 64 digits of 0-9a-f'],
    ['capitals', { sha256: HASH.toUpperCase() }, 'keys[0].secret.sha256', 'must be 64 digits of 0-9a-f'],
    ['the key itself', { sha256: 'sk-fl-hush' }, 'keys[0].secret.sha256', 'must be 64 digits of 0-9a-f'],
    ['digits that YAML took for a number', { sha256: 1234 }, 'keys[0].secret.sha256', 'must be 64 digits of 0-9a-f'],
    ['both', { env: 'A', sha256: HASH }, 'keys[0].secret', 'must have either env or sha256'],
    ['neither', {}, 'keys[0].secret', 'must have either env or sha256'],
    ['no name of a variable', { env: 'hu-sh' }, 'keys[0].secret.env', 'must be the name of an environment variable'],
  ])('a secret of a client is rejected, without its value, with %s', (_, secret, path, rule) => {
    const [where, value, why] = only(document({ keys: [{ name: 'a', secret }] }), { A: 'x' })
    expect([where, value, why]).toEqual([path, null, rule])
  })

  it('a secret of a client with an unknown hash is rejected with a list of known ones', () => {
    expect(problems(document({ keys: [{ name: 'a', secret: { sha512: 'hush' } }] }))).toContainEqual(
      expect.objectContaining({
        path: 'keys[0].secret.sha512',
        value: null,
        rule: 'is not a known key; known keys: env, sha256',
      }),
    )
  })

  it('a secret of an administrator cannot be a hash, because bridges and scripts send it', () => {
    expect(problems(document({ admin: { secret: { sha256: HASH } } })).length).toBeGreaterThan(0)
  })
})

describe('a gateway without keys', () => {
  it.each(['127.0.0.1:1', 'localhost:1', '[::1]:1', '127.9.9.9:1'])(
    'a gateway without keys may listen on %s',
    (listen) => {
      expect(problems(document({ listen }))).toEqual([])
    },
  )

  it.each(['0.0.0.0:1', ':1', '10.0.0.1:1', '[::]:1', 'example.com:1'])(
    'a gateway without keys may not listen on %s without `open: true`',
    (listen) => {
      expect(only(document({ listen }))[2]).toContain('configure `keys`, or set `open: true`')
      expect(problems(document({ listen, open: true }))).toEqual([])
      expect(problems(document({ listen, keys: [{ name: 'k', secret: 's' }] }))).toEqual([])
    },
  )

  it('a gateway without keys parses on Workers, which have no loopback: the gateway rejects requests instead', () => {
    const config = parseConfig(document(), {}, workers)
    expect(config).toMatchObject({ keys: null, open: false, loopback: false })
  })
})

describe('record', () => {
  it('record record is off by default; if enabled, it keeps four files of 64 MiB and a random salt', () => {
    expect(parseConfig(document(), {}, node).record).toBeNull()
    expect(parseConfig(document({ record: { file: 't.jsonl' } }), {}, node).record).toEqual({
      file: 't.jsonl',
      maxBytes: 67_108_864,
      files: 4,
      salt: null,
    })
    expect(
      parseConfig(document({ record: { file: 't.jsonl', salt: { env: 'SALT' } } }), { SALT: 'pepper' }, node).record,
    ).toMatchObject({ salt: 'pepper' })
  })

  it('record record is rejected on Workers, which have no disk', () => {
    expect(only(document({ record: { file: 't.jsonl' } }), {}, workers)).toEqual([
      'record',
      null,
      'needs `firstlight serve` on Node: leave it out',
    ])
  })
})

describe('alerts', () => {
  const webhook = (changes: object) => document({ alerts: { webhook: { url: 'https://hook.example/x', ...changes } } })

  it('alerts are sent to no webhook unless one is configured', () => {
    expect(parseConfig(document(), {}, node).alerts.webhook).toBeNull()
    expect(parseConfig(webhook({ url: { env: 'HOOK' } }), { HOOK: 'https://h.example/?token=1' }, node).alerts).toEqual(
      {
        webhook: { url: 'https://h.example/?token=1', secret: null },
      },
    )
  })

  it.each(['hook.example', 'ftp://hook.example', 'https://user:pass@hook.example'])(
    'alerts reject the URL %s',
    (url) => {
      const rule = 'must be a URL like https://alerts.example.com/firstlight, without a user or password'
      expect(problems(webhook({ url }))).toMatchObject([{ path: 'alerts.webhook.url', rule }])
    },
  )
})

describe('tls', () => {
  it('tls is off by default, and may have authorities for clients', () => {
    expect(parseConfig(document(), {}, node).tls).toBeNull()
    const tls = { cert: 'a.pem', key: 'b.pem', client_ca: 'c.pem' }
    expect(parseConfig(document({ tls }), {}, node).tls).toEqual({ cert: 'a.pem', key: 'b.pem', clientCa: 'c.pem' })
  })

  it('tls is rejected without a key, and on Workers', () => {
    expect(only(document({ tls: { cert: 'a.pem' } }))).toEqual(['tls.key', null, 'is required: a string'])
    expect(only(document({ tls: { cert: 'a.pem', key: 'b.pem' } }), {}, workers)[2]).toContain(
      'Cloudflare or the embedding server ends TLS',
    )
  })
})

describe('replicas', () => {
  const replicas = (changes: object) => document({ replicas: { url: 'redis://valkey:6379', ...changes } })

  it('replicas require only a URL', () => {
    expect(parseConfig(document(), {}, node).replicas).toBeNull()
    const url = 'rediss://fl:hush@valkey:6380/3'
    expect(parseConfig(replicas({ url: { env: 'URL' } }), { URL: url }, node).replicas).toEqual({
      url,
      cluster: false,
      prefix: 'firstlight',
      leaseMs: 15_000,
    })
  })

  it.each(['http://valkey', 'valkey:6379', 'redis://', 'redis://valkey/keys'])(
    'replicas reject the URL %s, without showing it',
    (url) => {
      for (const given of [url, { env: 'URL' }]) {
        const [path, value, rule] = only(replicas({ url: given }), { URL: url }) as readonly unknown[]
        expect([path, rule]).toEqual(['replicas', 'must have a `url` like redis://10.0.0.1:6379 or rediss://valkey'])
        expect(String(value)).not.toContain(url)
      }
    },
  )

  it.each([[{ url: undefined }], [{ url: '$URL' }], [{ prefix: 'a:b' }], [{ lease_ms: 999 }], [{ peers: ['a:1'] }]])(
    'replicas reject %j',
    (changes) => {
      expect(problems(replicas(changes)).length).toBeGreaterThan(0)
    },
  )

  it('replicas are rejected on Workers, where one object has the state', () => {
    expect(only(replicas({}), {}, workers)).toEqual([
      'replicas',
      null,
      'needs `firstlight serve` on Node: leave it out',
    ])
  })
})
