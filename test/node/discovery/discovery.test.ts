/** A fleet behind a DNS name that grows and shrinks. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config.ts'
import { singleAddressNote } from '../../../src/config/discover.ts'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { main } from '../../../bin/commands.ts'
import { Discovery } from '../../../src/platform/node/discovery.ts'
import { systemLookup } from '../../../src/platform/node/dns-lookup.ts'
import { threadCount } from '../../../src/platform/node/threads/thread-count.ts'
import { ownPorts } from '../../own-ports.ts'
import { firstlightIn } from '../../cli/run-cli.ts'
import { quiet } from '../threads/quiet.ts'

const configOf = (...names: string[]): Config =>
  parseConfig(
    {
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: 'm',
              discover_interval_ms: 1000,
              engines: [
                ...names.map((name) => ({ id: name, url: `http://${name}:80`, discover: 'dns' })),
                { id: 'fixed', url: 'http://10.9.9.9' },
              ],
            },
          ],
        },
      ],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
const engineIds = (config: Config): string[] => config.clusters[0]!.pools[0]!.engines.map(({ id }) => id)
const nobody = () => Promise.reject(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }))
const away = () => Promise.reject(Object.assign(new Error('try again'), { code: 'EAI_AGAIN' }))

describe('the names of engines', () => {
  let answers: Record<string, () => Promise<readonly string[]>>
  let lookups: string[]
  let discovery: Discovery
  let changes: number
  let stop: () => void
  const says =
    (...addresses: string[]) =>
    async () =>
      addresses
  const now = async () => engineIds(await discovery.resolve(configOf('a')))

  beforeEach(async () => {
    vi.useFakeTimers()
    lookups = []
    changes = 0
    answers = { a: says('10.0.0.2', '10.0.0.1') }
    discovery = new Discovery({ lookup: (name) => (lookups.push(name), answers[name]!()), log: quiet })
    expect(await now()).toEqual(['a-10.0.0.1', 'a-10.0.0.2', 'fixed'])
    discovery.settle(configOf('a'))
    stop = discovery.watch(() => (changes += 1))
  })
  afterEach(() => {
    stop()
    vi.useRealTimers()
  })

  it('names of engines are resolved at the configured interval, and another order is no change', async () => {
    answers['a'] = says('10.0.0.1', '10.0.0.2')
    await vi.advanceTimersByTimeAsync(10_050)
    expect(lookups).toHaveLength(1 + 10)
    expect(changes).toBe(0)
  })

  it('names of engines report a new engine', async () => {
    answers['a'] = says('10.0.0.1', '10.0.0.2', '10.0.0.3')
    await vi.advanceTimersByTimeAsync(1_200)
    expect(changes).toBe(1)
    expect(await now()).toEqual(['a-10.0.0.1', 'a-10.0.0.2', 'a-10.0.0.3', 'fixed'])
  })

  it('names of engines report it again until it is adopted', async () => {
    answers['a'] = says('10.0.0.1')
    await vi.advanceTimersByTimeAsync(6_000)
    expect(changes).toBeGreaterThan(1)
    await now()
    discovery.settle(configOf('a'))
    const { length } = lookups
    changes = 0
    await vi.advanceTimersByTimeAsync(3_000)
    expect(lookups.length).toBeGreaterThan(length)
    expect(changes).toBe(0)
  })

  it.each([
    ['an answer without it', says('10.0.0.1')],
    ['an answer of nobody', nobody],
  ])('names of engines forget an engine after three times %s, not before', async (_what, answer) => {
    answers['a'] = answer
    await vi.advanceTimersByTimeAsync(2_300)
    expect(await now()).toContain('a-10.0.0.2')
    answers['a'] = says('10.0.0.1', '10.0.0.2')
    await vi.advanceTimersByTimeAsync(1_100)
    answers['a'] = answer
    await vi.advanceTimersByTimeAsync(2_200)
    expect(changes).toBe(0)
    await vi.advanceTimersByTimeAsync(1_100)
    expect(changes).toBe(1)
    expect(await now()).not.toContain('a-10.0.0.2')
  })

  it('names of engines keep all engines while no name server answers', async () => {
    answers['a'] = away
    await vi.advanceTimersByTimeAsync(60_000)
    expect(changes).toBe(0)
    expect(await now()).toEqual(['a-10.0.0.1', 'a-10.0.0.2', 'fixed'])
  })

  it('names of engines do not block a start forever, and are used when they resolve', async () => {
    let answer: (addresses: readonly string[]) => void = () => undefined
    answers['slow'] = () => new Promise((resolve) => (answer = resolve))
    const resolving = discovery.resolve(configOf('a', 'slow'))
    await vi.advanceTimersByTimeAsync(3_000)
    expect(engineIds(await resolving)).toEqual(['a-10.0.0.1', 'a-10.0.0.2', 'fixed'])
    discovery.settle(configOf('a', 'slow'))
    answer(['10.0.0.5'])
    answers['slow'] = says('10.0.0.5')
    await vi.advanceTimersByTimeAsync(2_000)
    expect(changes).toBeGreaterThan(0)
    expect(engineIds(await discovery.resolve(configOf('a', 'slow')))).toContain('slow-10.0.0.5')
  })

  it('names of engines report changes while another name’s server hangs, which is not queried again meanwhile', async () => {
    answers['slow'] = () => new Promise(() => undefined)
    const resolving = discovery.resolve(configOf('slow', 'a'))
    await vi.advanceTimersByTimeAsync(3_000)
    await resolving
    discovery.settle(configOf('slow', 'a'))
    changes = 0
    answers['a'] = says('10.0.0.1', '10.0.0.2', '10.0.0.3')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(changes).toBeGreaterThan(0)
    expect(lookups.filter((name) => name === 'slow')).toHaveLength(1)
  })

  it('names of engines do not resolve to the gateway itself', async () => {
    const warn = vi.fn()
    const found = new Discovery({
      lookup: says('10.0.0.1', '10.0.0.2', 'fd00::1'),
      log: { ...quiet, warn },
      here: () => new Set(['10.0.0.2', 'fd00::1']),
    })
    const listening = (host: string, port: number): Config => ({ ...configOf('a'), listen: { host, port } })
    expect(engineIds(await found.resolve(listening('0.0.0.0', 80)))).toEqual(['a-10.0.0.1', 'fixed'])
    await found.resolve(listening('0.0.0.0', 80))
    expect(warn.mock.calls).toEqual([
      ['peer_is_self', expect.objectContaining({ engines: ['c, a-10.0.0.2', 'c, a-fd00--1'] })],
    ])
    expect(engineIds(await found.resolve(listening('10.0.0.1', 80)))).toEqual(['a-10.0.0.2', 'a-fd00--1', 'fixed'])
    expect(engineIds(await found.resolve(listening('0.0.0.0', 81)))).toHaveLength(4)
  })

  it('names of engines do not resolve to engines of another name, which is logged once', async () => {
    const warn = vi.fn()
    const found = new Discovery({ lookup: says('10.0.0.1'), log: { ...quiet, warn } })
    for (let at = 0; at < 2; at += 1)
      expect(engineIds(await found.resolve(configOf('a', 'b')))).toEqual(['a-10.0.0.1', 'fixed'])
    expect(warn.mock.calls).toEqual([
      ['engines_left_out', expect.objectContaining({ engines: ['c, b-10.0.0.1 at http://10.0.0.1'] })],
    ])
    await found.resolve(configOf('b'))
    await found.resolve(configOf('a', 'b'))
    expect(warn).toHaveBeenCalledTimes(2)
  })

  it('names of engines are resolved more often as soon as the configuration requires it', async () => {
    const seldom = {
      ...configOf('a'),
      clusters: configOf('a').clusters.map((cluster) => ({
        ...cluster,
        pools: cluster.pools.map((pool) => ({ ...pool, discoverIntervalMs: 3_600_000 })),
      })),
    }
    discovery.settle(seldom)
    await vi.advanceTimersByTimeAsync(1_100)
    discovery.settle(configOf('a'))
    lookups.length = 0
    await vi.advanceTimersByTimeAsync(3_050)
    expect(lookups).toHaveLength(3)
  })

  it('names of engines do not split an engine whose answer has only its other address family, unless it stays so', async () => {
    answers['a'] = says('fd00::1', 'fd00::2')
    await vi.advanceTimersByTimeAsync(2_300)
    expect(await now()).toEqual(['a-10.0.0.1', 'a-10.0.0.2', 'fixed'])
    answers['a'] = says('10.0.0.1', '10.0.0.2')
    await vi.advanceTimersByTimeAsync(1_100)
    expect(changes).toBe(0)
    answers['a'] = says('fd00::1', 'fd00::2')
    await vi.advanceTimersByTimeAsync(3_300)
    expect(await now()).toEqual(['a-fd00--1', 'a-fd00--2', 'fixed'])
  })

  it('names of engines are followed no more when a configuration without them is in use, and not before', async () => {
    answers['b'] = says('10.0.0.7')
    expect(engineIds(await discovery.resolve(configOf('b')))).toEqual(['b-10.0.0.7', 'fixed'])
    await vi.advanceTimersByTimeAsync(1_200)
    expect(lookups.slice(-2)).toEqual(['a', 'b'])
    discovery.settle(configOf('b'))
    lookups.length = 0
    await vi.advanceTimersByTimeAsync(5_000)
    expect(new Set(lookups)).toEqual(new Set(['b']))
  })
})

describe('a Kubernetes Service with one address', () => {
  const name = 'vllm.llm.svc'
  const one = async () => ['10.96.0.7']

  it.each([
    [name, ['10.96.0.7'], 1],
    [name, ['10.0.0.1', '10.0.0.2'], 0],
    ['vllm.example.com', ['10.0.0.1'], 0],
  ])(
    'a Kubernetes Service with one address leads to a warning of `serve` if it may not be headless: %s with %j',
    async (host, addresses, warnings) => {
      const warn = vi.fn()
      await new Discovery({ lookup: async () => addresses, log: { ...quiet, warn } }).resolve(configOf(host))
      expect(warn.mock.calls.filter(([event]) => event === 'service_has_one_address')).toHaveLength(warnings)
    },
  )

  it('a Kubernetes Service with one address leads to a warning of `check` and `doctor`', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-discovery-'))
    const file = join(folder, 'firstlight.yaml')
    const engines = [{ id: 'e', url: `http://${name}:${ownPorts(1)}`, discover: 'dns' }]
    writeFileSync(file, JSON.stringify({ clusters: [{ id: 'c', pools: [{ model: 'm', engines }] }] }))
    const here = async () => ['127.0.0.1']
    const checked = await firstlightIn({ lookup: one }, 'check', file)
    const examined = await firstlightIn({ lookup: here }, 'doctor', '--config', file, '--idle-s', '0')
    rmSync(folder, { recursive: true })
    expect(checked.out).toContain('clusterIP: None')
    expect(examined.err).toContain('clusterIP: None')
    expect(singleAddressNote(`${name}.cluster.local`, ['10.96.0.7'])).not.toBeNull()
  })
})

it('the system resolves localhost to one family', async () => {
  expect([['127.0.0.1'], ['::1']]).toContainEqual(await systemLookup('localhost'))
})

const modelFile = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`../../vectors/model/${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
const vocabulary = compileVocabulary({
  tokenizer: modelFile('tokenizer.json'),
  ...readTokenizerConfig(modelFile('tokenizer_config.json')),
})

describe.each(threadCount(2) === 2 ? ['1', '2'] : ['1'])(
  'a gateway of %s threads before engines that are found by name',
  (workers) => {
    let engines: FakeEngine
    let addresses: readonly string[]
    let folder: string
    let url: string
    let over: AbortController
    let ended: Promise<number>
    const answered: string[] = []

    /** One server with as many engines as addresses. */
    beforeEach(async () => {
      addresses = []
      engines = await FakeEngine.open(
        {
          'POST *': ({ address }) => {
            answered.push(address)
            return { body: { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } } }
          },
        },
        { host: '0.0.0.0' },
      )
      folder = mkdtempSync(join(tmpdir(), 'firstlight-discovery-'))
      const file = join(folder, 'firstlight.yaml')
      const { port } = engines
      writeFileSync(join(folder, 'm.vocab'), vocabulary)
      const pool = {
        model: 'm',
        tokenizer: 'm.vocab',
        policy: 'round_robin',
        discover_interval_ms: 100,
        engines: [{ id: 'e', url: `http://engines.example:${port}`, discover: 'dns' }],
      }
      writeFileSync(
        file,
        JSON.stringify({
          admin: { secret: 'admin' },
          log: { level: 'silent' },
          clusters: [{ id: 'c', pools: [pool] }],
        }),
      )
      over = new AbortController()
      const listen = `127.0.0.1:${ownPorts(1)}`
      url = `http://${listen}`
      const io = {
        out: () => undefined,
        err: () => undefined,
        env: {},
        stop: over.signal,
        stopNow: over.signal,
        lookup: async () => addresses,
      }
      ended = main(['serve', '--config', file, '--listen', listen, '--workers', workers], io)
      await expect
        .poll(() =>
          fetch(`${url}/health`).then(
            ({ status }) => status,
            () => 0,
          ),
        )
        .toBe(200)
    })
    afterEach(async () => {
      over.abort()
      await ended
      await engines.close()
      rmSync(folder, { recursive: true })
    })

    const ask = (): Promise<number> =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
      }).then(async (response) => (await response.text(), response.status))
    /** Engines that serve six requests. */
    const round = async (): Promise<readonly string[]> => {
      answered.length = 0
      for (let at = 0; at < 6; at += 1) if ((await ask()) !== 200) return ['refused']
      return [...new Set(answered)].sort()
    }

    it('starts without engines, then uses those that appear, and keeps those that stay', async () => {
      expect(await ask()).toBe(503)
      addresses = ['127.0.0.1', '127.0.0.2']
      await expect.poll(round).toEqual(['127.0.0.1', '127.0.0.2'])
      addresses = ['127.0.0.2', '127.0.0.3']
      await expect.poll(round).toEqual(['127.0.0.2', '127.0.0.3'])
      const fleet = (await (
        await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: 'Bearer admin' } })
      ).json()) as { pools: { engines: { id: string }[] }[] }
      expect(fleet.pools.flatMap((pool) => pool.engines.map(({ id }) => id))).toEqual(['e-127.0.0.2', 'e-127.0.0.3'])
      addresses = []
      await expect.poll(ask).toBe(503)
    })

    it('a gateway before engines found by name adopts new engines without reading a replaced vocabulary file', async () => {
      addresses = ['127.0.0.1']
      await expect.poll(round).toEqual(['127.0.0.1'])
      rmSync(join(folder, 'm.vocab'))
      addresses = ['127.0.0.1', '127.0.0.2']
      await expect.poll(round).toEqual(['127.0.0.1', '127.0.0.2'])
    })
  },
)

it('the doctor checks each of them, and reports a name without addresses', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-discovery-'))
  const file = join(folder, 'firstlight.yaml')
  const port = ownPorts(1)
  writeFileSync(
    file,
    JSON.stringify({
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: 'm',
              engines: ['there', 'nowhere'].map((id) => ({ id, url: `http://${id}.invalid:${port}`, discover: 'dns' })),
            },
          ],
        },
      ],
    }),
  )
  const { code, out } = await firstlightIn(
    { lookup: (name) => (name === 'there.invalid' ? Promise.resolve(['127.0.0.1', '127.0.0.2']) : nobody()) },
    'doctor',
    '--config',
    file,
    '--idle-s',
    '0',
  )
  rmSync(folder, { recursive: true })
  expect(code).toBe(2)
  for (const engine of [`there-127.0.0.1`, `there-127.0.0.2`, 'nowhere-nowhere.invalid']) expect(out).toContain(engine)
  expect(out).toMatch(/nowhere\.invalid[^]*(ENOTFOUND|EAI_AGAIN|no such|not known|cannot)/i)
})
