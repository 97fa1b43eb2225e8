import { describe, expect, it } from 'vitest'
import { type DiscoveredPod, namesIn, withDiscovered } from '../../src/config/discover.ts'
import { toTargets } from '../../src/config/engine-targets.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const pattern = { id: 'e', url: 'http://vllm.default.svc:8000/base', discover: 'dns' }
const document = (pools: readonly object[]) => ({ clusters: [{ id: 'c', pools }] })
const poolOf = (engines: readonly object[], more: object = {}) => ({ model: 'm', engines, ...more })
const read = (pools: readonly object[], listens = true) =>
  parseConfig(document(pools), {}, { defaultVersion: 1, defaultObserveShare: 1, listens })
const found = (pools: readonly object[], addresses: Readonly<Record<string, readonly string[]>>) =>
  withDiscovered(read(pools), (name) => addresses[name] ?? []).clusters[0]!.pools

function faults(engine: object, { more = {}, listens = true }: { more?: object; listens?: boolean } = {}): string[] {
  try {
    read([poolOf([engine], more)], listens)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, rule }) => `${path} ${rule}`)
  }
}

describe('discovered engines', () => {
  it('discovered engines are one per address, with all settings of the template', () => {
    const [pool] = found([poolOf([{ ...pattern, weight: 2, max_in_flight: 7, data_parallel: 'auto' }])], {
      'vllm.default.svc': ['10.0.0.1', 'fd00::7'],
    })
    expect(pool!.engines).toMatchObject([
      {
        id: 'e-10.0.0.1',
        url: 'http://10.0.0.1:8000/base',
        discover: null,
        weight: 2,
        maxInFlight: 7,
        dataParallel: 'auto',
      },
      { id: 'e-fd00--7', url: 'http://[fd00::7]:8000/base', discover: null, weight: 2, maxInFlight: 7 },
    ])
  })

  it('discovered engines are asked for their adapters if clients may request those that engines report', () => {
    for (const adapters of ['auto', ['sql']]) {
      const [pool] = found([poolOf([pattern], { adapters })], { 'vllm.default.svc': ['10.0.0.1', '10.0.0.2'] })
      expect([...toTargets(pool!).values()]).toMatchObject([{ hasAdapters: true }, { hasAdapters: true }])
    }
    const [pool] = found([poolOf([pattern])], { 'vllm.default.svc': ['10.0.0.1'] })
    expect(toTargets(pool!).get('e-10.0.0.1')).not.toHaveProperty('hasAdapters')
  })

  it('discovered engines may be an empty list', () => {
    expect(found([poolOf([pattern])], {})[0]!.engines).toEqual([])
  })

  it('discovered engines exclude addresses that are configured explicitly', () => {
    const [pool] = found(
      [
        poolOf([
          pattern,
          { id: 'own', url: 'http://10.0.0.1:8000/base/' },
          { id: 'e-10.0.0.2', url: 'http://other:1' },
        ]),
      ],
      {
        'vllm.default.svc': ['10.0.0.1', '10.0.0.2', '10.0.0.3'],
      },
    )
    expect(pool!.engines.map(({ id }) => id)).toEqual(['e-10.0.0.3', 'own', 'e-10.0.0.2'])
  })

  it('discovered engines are unique by id and address: duplicates are skipped and reported', () => {
    const left: string[] = []
    const config = read([
      poolOf([
        { ...pattern, id: 'a', url: 'http://one' },
        { ...pattern, id: 'a-fd00', url: 'http://two' },
        { id: 'a-fd00--9', url: 'http://own' },
        { id: 'there', url: 'http://[fd00::8]' },
      ]),
      { ...poolOf([{ ...pattern, id: 'b', url: 'http://three' }]), model: 'n' },
    ])
    const addresses: Readonly<Record<string, readonly string[]>> = {
      one: ['fd00:1::2', 'fd00::8', 'fd00::9'],
      two: ['1::2', '1::3'],
      three: ['1::3', '1::4', '1::4'],
    }
    const pools = withDiscovered(
      config,
      (name) => addresses[name]!,
      (engine) => left.push(engine),
    ).clusters[0]!.pools
    expect(pools.map(({ engines }) => engines.map(({ id, url }) => [id, url]))).toEqual([
      [
        ['a-fd00-1--2', 'http://[fd00:1::2]'],
        ['a-fd00-1--3', 'http://[1::3]'],
        ['a-fd00--9', 'http://own'],
        ['there', 'http://[fd00::8]'],
      ],
      [['b-1--4', 'http://[1::4]']],
    ])
    expect(left).toEqual([
      'c, a-fd00--9 at http://[fd00::9]',
      'c, a-fd00-1--2 at http://[1::2]',
      'c, b-1--3 at http://[1::3]',
    ])
  })

  it('discovered pods that share the address of a node are engines by address and port', () => {
    const template = {
      ...pattern,
      url: 'http://pods:8000',
      discover: 'kubernetes',
      kubernetes: { selector: 'app=vllm' },
    }
    const pod = (name: string, address: string, port: number | null): DiscoveredPod => ({
      name,
      address,
      port,
      labels: {},
      models: null,
      weight: null,
      kvEventsPort: null,
      rank: null,
    })
    const left: string[] = []
    const pods = [
      pod('one', '10.0.0.1', 8000),
      pod('two', '10.0.0.1', 8001),
      pod('three', 'fd00::1', 8001),
      pod('four', 'fd00::1:8001', null),
      pod('five', '10.0.0.1', null),
    ]
    const config = withDiscovered(read([poolOf([template])]), { addressesOf: () => [], podsOf: () => pods }, (engine) =>
      left.push(engine),
    )
    expect(config.clusters[0]!.pools[0]!.engines.map(({ id, url }) => [id, url])).toEqual([
      ['e-10.0.0.1', 'http://10.0.0.1:8000'],
      ['e-10.0.0.1_8001', 'http://10.0.0.1:8001'],
      ['e-fd00--1_8001', 'http://[fd00::1]:8001'],
      ['e-fd00--1-8001', 'http://[fd00::1:8001]:8000'],
    ])
    expect(left).toEqual(['c, e-10.0.0.1 at http://10.0.0.1:8000'])
  })

  it('discovered engines leave the labels of the configured roles in the pool', () => {
    const kubernetes = { selector: 'app=vllm', prefill_labels: ['role=p'], decode_labels: ['role=d', 'role=both'] }
    const rolesOf = (...engines: readonly object[]) => found([poolOf(engines)], {})[0]!.split.roles
    const byLabel = { ...pattern, discover: 'kubernetes', kubernetes }
    expect(rolesOf(byLabel)).toEqual({ prefill: ['role=p'], decode: ['role=d', 'role=both'] })
    const byTemplate = {
      ...pattern,
      discover: 'kubernetes',
      role: 'prefill',
      kubernetes: { selector: 'app=p,x in (y)' },
    }
    const byName = { ...pattern, id: 'd', role: 'decode', labels: { app: 'd' } }
    expect(rolesOf(byTemplate, byName)).toEqual({ prefill: ['app=p,x in (y)'], decode: ['app=d'] })
    expect(rolesOf(pattern, { id: 'p', url: 'http://p:1', role: 'prefill', labels: { zone: 'a' } })).toEqual({
      prefill: ['zone=a'],
    })
    expect(rolesOf(pattern)).toEqual({})
    expect(rolesOf({ id: 'p', url: 'http://p:1' })).toBeUndefined()
  })

  it('discovered engines may be data-parallel ranks, distinguished by headers', () => {
    const rank = (at: number) => ({ ...pattern, id: `r${at}`, headers: { 'X-data-parallel-rank': String(at) } })
    const [pool] = found([poolOf([rank(0), rank(1)])], { 'vllm.default.svc': ['10.0.0.1'] })
    expect(pool!.engines.map(({ id, url }) => [id, url])).toEqual([
      ['r0-10.0.0.1', 'http://10.0.0.1:8000/base'],
      ['r1-10.0.0.1', 'http://10.0.0.1:8000/base'],
    ])
  })

  it('discovered engines publish their own KV events, and receive KV caches for themselves', () => {
    const decode = {
      ...pattern,
      id: 'd',
      role: 'decode',
      kv_events: { endpoint: 'tcp://vllm.default.svc:5557', replay_endpoint: 'tcp://vllm.default.svc:5558' },
    }
    const [pool] = found(
      [
        poolOf([{ id: 'p', url: 'http://prefill:8000', role: 'prefill' }, decode], {
          split: {
            connector: 'lmcache',
            lmcache: { decoders: { d: { host: 'vllm.default.svc', init_ports: [1], alloc_ports: [2] } } },
          },
        }),
      ],
      { 'vllm.default.svc': ['10.0.0.1', 'fd00::7'] },
    )
    expect(pool!.engines.slice(1).map(({ kvEvents }) => kvEvents)).toEqual([
      { endpoint: 'tcp://10.0.0.1:5557', replayEndpoint: 'tcp://10.0.0.1:5558', topic: null },
      { endpoint: 'tcp://[fd00::7]:5557', replayEndpoint: 'tcp://[fd00::7]:5558', topic: null },
    ])
    expect(pool!.split.lmcache.receivers).toEqual({
      'd-10.0.0.1': { host: '10.0.0.1', initPorts: [1], allocPorts: [2] },
      'd-fd00--7': { host: 'fd00::7', initPorts: [1], allocPorts: [2] },
    })
  })

  it('discovered engines are resolved at the shortest interval of their pools', () => {
    const config = read([
      poolOf([pattern], { discover_interval_ms: 9000 }),
      {
        ...poolOf([{ ...pattern, id: 'f', url: 'http://vllm.default.svc:9000' }], { discover_interval_ms: 700 }),
        model: 'n',
      },
    ])
    expect([...namesIn(config)]).toEqual([['vllm.default.svc', 700]])
  })

  it('discovered engines leave a configuration without them unchanged', () => {
    const config = read([poolOf([{ id: 'a', url: 'http://a' }])])
    expect(withDiscovered(config, () => ['10.0.0.1'])).toBe(config)
  })

  it('discovered engines are summarised as templates by `firstlight check`', () => {
    const summary = summarise(read([poolOf([pattern])]))
    expect(summary.clusters[0]!.pools[0]!.engines[0]!.more).toBe('each address of its name')
    expect(summary.notes.join()).not.toContain('there is one engine')
  })
})

describe('an engine template', () => {
  const at = 'clusters[0].pools[0].engines[0]'
  it.each([
    [
      'TLS',
      { ...pattern, url: 'https://vllm' },
      `${at}.url must be http: \`discover\` connects to addresses, which certificates do not contain`,
    ],
    [
      'an address',
      { ...pattern, url: 'http://10.0.0.1:8000' },
      `${at}.url is an IP address: \`discover\` needs a host name`,
    ],
    [
      'an address of the other family',
      { ...pattern, url: 'http://[::1]:8000' },
      `${at}.url is an IP address: \`discover\` needs a host name`,
    ],
    [
      'a long id',
      { ...pattern, id: 'x'.repeat(24) },
      `${at}.id must have at most 23 characters: \`discover\` appends an address`,
    ],
    [
      'an LMCache instance',
      { ...pattern, lmcache_instance: 'i' },
      `${at}.lmcache_instance belongs to one engine, and \`discover\` may find several. Remove it: instances are found by host`,
    ],
    [
      'another host’s events',
      { ...pattern, kv_events: { endpoint: 'tcp://elsewhere:5557' } },
      `${at}.kv_events must name the host of \`url\`, tcp://vllm.default.svc:…: with \`discover\` each address publishes its own`,
    ],
    [
      'local events',
      { ...pattern, kv_events: { endpoint: 'ipc:///tmp/events' } },
      `${at}.kv_events must name the host of \`url\`, tcp://vllm.default.svc:…: with \`discover\` each address publishes its own`,
    ],
  ])('an engine template cannot have %s', (_what, engine, fault) => {
    expect(faults(engine)).toEqual([fault])
  })

  it('an engine template accepts no other discovery method', () => {
    expect(faults({ ...pattern, discover: 'consul' })).toEqual([
      `${at}.discover must be one of dns, kubernetes, inferencepool`,
    ])
  })

  it('an engine template needs a selector for pods, and has none otherwise', () => {
    expect(faults({ ...pattern, discover: 'kubernetes' })).toEqual([
      `${at}.kubernetes has no \`selector\`, which \`discover: kubernetes\` needs, such as \`{ selector: app=vllm }\``,
    ])
    const kubernetes = { selector: 'app=vllm' }
    expect(faults({ ...pattern, discover: 'kubernetes', kubernetes })).toEqual([])
    expect(faults({ ...pattern, kubernetes })).toEqual([
      `${at}.kubernetes selects pods for \`discover: kubernetes\` or \`inferencepool\`: add this key, or remove \`kubernetes\``,
    ])
  })

  it('an engine template of an InferencePool needs its name, and neither a selector nor a port', () => {
    const template = { ...pattern, discover: 'inferencepool' }
    expect(faults({ ...template, kubernetes: { pool: 'qwen' } })).toEqual([])
    expect(faults(template)).toEqual([
      `${at}.kubernetes has no \`pool\`, which \`discover: inferencepool\` needs, such as \`{ pool: vllm-qwen }\``,
    ])
    expect(faults({ ...template, kubernetes: { pool: 'qwen', selector: 'app=vllm', port: 8000 } })).toEqual([
      `${at}.kubernetes.selector does not go with \`discover: inferencepool\`: remove it, or change \`discover\``,
      `${at}.kubernetes.port does not go with \`discover: inferencepool\`: the pool has target ports. Remove it`,
    ])
    expect(faults({ ...template, kubernetes: { pool: 'Qwen/8B' } })[0]).toContain(
      'must be the name of an InferencePool',
    )
  })

  it('an engine template has one port, or the ports of ranks as a range or a list', () => {
    const withPorts = (ports: unknown, more: object = {}) =>
      faults({ ...pattern, discover: 'kubernetes', kubernetes: { selector: 'app=vllm', ports, ...more } })
    expect(withPorts('8000-8007')).toEqual([])
    expect(withPorts([8000, 9000])).toEqual([])
    expect(withPorts('8000')).toEqual([`${at}.kubernetes.ports must be a range of ports, such as 8000-8007`])
    for (const [ports, rule] of [
      ['8007-8000', 'must be a range whose first port is not above its last'],
      ['8000-8064', 'must have at most 64 ports'],
      ['65530-65536', 'must have ports from 1 to 65535'],
      [[8000, 8000], 'has a port twice'],
    ] as const)
      expect(withPorts(ports)).toEqual([`${at}.kubernetes.ports ${rule}`])
    expect(withPorts('8000-8001', { port: 8000 })).toEqual([
      `${at}.kubernetes.ports contradicts \`port\`: leave one of them out`,
    ])
  })

  it('an engine template requires Node', () => {
    expect(faults(pattern, { listens: false })).toEqual([
      `${at}.discover works on Node only. On Workers, list each engine`,
    ])
  })

  it.each([
    [
      'of one receiver for all',
      { decoder: { host: 'vllm.default.svc', init_ports: [1], alloc_ports: [2] } },
      'split.lmcache.decoder is one receiver, but `discover` may find several decode engines: add the template to `decoders`',
    ],
    [
      'of a receiver elsewhere',
      { decoders: { e: { host: 'elsewhere', init_ports: [1], alloc_ports: [2] } } },
      "split.lmcache.decoders.e.host must be the host of the engine's url, vllm.default.svc: with `discover` each address is a receiver",
    ],
  ])('an engine template is not a decode engine %s', (_what, lmcache, fault) => {
    expect(
      faults({ ...pattern, role: 'decode' }, { more: { split: { mode: 'always', connector: 'lmcache', lmcache } } }),
    ).toEqual([`clusters[0].pools[0].${fault}`])
  })
})
