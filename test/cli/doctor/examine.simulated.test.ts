import { afterEach, describe, expect, it } from 'vitest'
import { demoDocument, startDemoFleet } from '../../../packages/simulator/src/commands/demo-fleet.ts'
import { startFleet, type HostOptions, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { visit, visitPool } from './ask.ts'

let fleet: RunningFleet | undefined
afterEach(() => fleet?.close())
const start = async (options: HostOptions = {}): Promise<string> => {
  fleet = await startFleet({ engines: 1, profile: 'instant', ...options })
  return fleet.urls[0]!
}
const completions = (): number =>
  fleet!.engines.reduce((sum, { log }) => sum + (log.last('/v1/completions') === undefined ? 0 : 1), 0)

describe('firstlight doctor before simulated engines', () => {
  it('doctor before simulated engines reports no problems for the demo’s fleet, by address and by configuration', async () => {
    fleet = await startDemoFleet(2)
    const byUrl = await visit(...fleet.urls, '--strict')
    expect(byUrl.marks.filter((mark) => !mark.endsWith(': note'))).toEqual([])
    expect(byUrl.code).toBe(0)
    const pool = (demoDocument(fleet) as { clusters: { pools: object[] }[] }).clusters[0]!.pools[0]!
    const byConfig = await visitPool(pool, {}, '--strict')
    expect(byConfig.marks.filter((mark) => !mark.endsWith(': note'))).toEqual([])
    expect(byConfig.code).toBe(0)
    expect(byConfig.subjects.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'engine engine-0',
      'engine engine-1',
      'pool sim',
    ])
    expect(byConfig.find('alike').message).toContain('2 engines')
  })

  it('doctor before simulated engines detects every enabled feature with one completion of one token', async () => {
    const url = await start({
      maxNumQueuedReqs: 8,
      adapters: ['sql'],
      modelPath: 'models/sim',
      limits: { blockTokens: 32, cacheBlocks: 2000 },
    })
    const seen = await visit(url)
    expect(seen.find('models').message).toBe('sim (models/sim), up to 64000 tokens; adapters sql')
    expect(seen.find('cache_size').message).toBe('2000 blocks of 32 tokens: 64,000 tokens')
    for (const check of [
      'health',
      'metrics',
      'prefix_caching',
      'cached_tokens',
      'per_request_metrics',
      'request_ids',
      'tokenize',
      'admission_limits',
      'sleep_mode',
      'clock',
    ]) {
      expect({ check, mark: seen.find(check).mark }).toEqual({ check, mark: 'ok' })
    }
    expect(fleet!.engines[0]!.driver.model.counters.outputTokens).toBe(1)
  })

  it('doctor before simulated engines names the flag of each feature that is off', async () => {
    const url = await start({ perRequestMetrics: false, requestIdHeaders: false, prefixCaching: false, devMode: false })
    const seen = await visit(url)
    expect(seen.marks).toEqual([
      'prefix_caching: warning',
      'per_request_metrics: note',
      'request_ids: note',
      'kv_events: note',
      'admission_limits: note',
    ])
    expect(seen.find('prefix_caching').next).toContain('--enable-prefix-caching')
    expect(seen.find('per_request_metrics').next).toContain('--enable-per-request-metrics')
    expect(seen.find('request_ids').next).toContain('--enable-request-id-headers')
    expect(seen.find('kv_events').next).toContain('--kv-events-config')
    expect(seen.find('admission_limits')).toMatchObject({
      message: 'not visible from outside',
      next: expect.stringContaining('--max-num-queued-reqs'),
    })
    expect(seen.code).toBe(0)
    expect((await visit(url, '--strict')).code).toBe(1)
  })

  it('doctor before simulated engines requests no completion if disabled', async () => {
    const url = await start()
    const seen = await visit(url, '--no-generate')
    expect(seen.find('completion')).toMatchObject({ mark: 'note', message: 'skipped' })
    expect(completions()).toBe(0)
  })

  it('doctor before simulated engines reports a paused or sleeping engine with the command to wake it, without hanging', async () => {
    const url = await start()
    await fetch(`${url}/pause`, { method: 'POST' })
    expect((await visit(url)).find('awake')).toMatchObject({
      mark: 'problem',
      message: 'it is paused',
      next: expect.stringContaining('/resume'),
    })
    await fetch(`${url}/resume`, { method: 'POST' })
    await fetch(`${url}/sleep?level=1`, { method: 'POST' })
    const asleep = await visit(url)
    expect(asleep.find('awake')).toMatchObject({
      mark: 'problem',
      message: 'it is asleep',
      next: expect.stringContaining('/wake_up'),
    })
    expect(asleep.code).toBe(1)
    expect(completions()).toBe(0)
  })

  it('doctor before simulated engines reports a required, wrong or accepted key, and prints none', async () => {
    const url = await start({ apiKey: 'sesame-key' })
    const without = await visit(url)
    expect(without.find('key')).toMatchObject({
      mark: 'problem',
      message: 'a key is required (HTTP 401)',
      next: expect.stringContaining('FIRSTLIGHT_ENGINE_KEY'),
    })
    expect(without.code).toBe(1)
    expect((await visit(url, '--key', 'wrong-key')).find('key').message).toBe('the key was rejected (HTTP 401)')
    const right = await visit(url, '--key', 'sesame-key')
    expect(right.find('key')).toMatchObject({ mark: 'ok', message: 'accepted, and required' })
    expect(right.json + right.out).not.toContain('sesame')
  })

  it('doctor before simulated engines compares the configuration with the engine', async () => {
    const url = await start({ prefixCaching: false, limits: { blockTokens: 48, cacheBlocks: 1000 } })
    const engine = { id: 'a', url, key: 'not-needed', prefix_caching: 'on', cache_blocks: 5000 }
    const seen = await visitPool({ model: 'simm', adapters: ['sql'], engines: [engine] })
    expect(seen.marks).toEqual(
      expect.arrayContaining([
        'names: problem',
        'key: warning',
        'prefix_caching: problem',
        'block_tokens: warning',
        'cache_blocks: warning',
      ]),
    )
    const says = seen.subjects[0]!.findings.filter(({ check }) => check === 'names').map((finding) => finding.message)
    expect(says).toEqual(['it does not serve simm; did you mean "sim"?', 'it does not serve the adapter sql'])
    expect(seen.find('block_tokens').next).toBe('block_tokens: 96')
    expect(seen.find('cache_blocks').message).toBe('configured: 320,000 tokens, reported: 48,000')
    expect(seen.code).toBe(1)
    expect(seen.json).not.toContain('not-needed')
  })

  it('doctor before simulated engines recognises prefill and decode engines by their connectors', async () => {
    fleet = await startFleet({
      profile: 'instant',
      engines: [
        { id: 'p', role: 'prefill' },
        { id: 'd', role: 'decode' },
        { id: 'n', connector: null },
      ],
    })
    const [p, d, n] = fleet.urls
    const split = (prefill: string, decode: string) =>
      visitPool({
        model: 'sim',
        engines: [
          { id: 'p', url: prefill, role: 'prefill' },
          { id: 'd', url: decode, role: 'decode' },
        ],
      })
    const transfers = async (prefill: string, decode: string) =>
      (await split(prefill, decode)).subjects
        .flatMap(({ findings }) => findings.filter(({ check }) => check === 'kv_transfer'))
        .map(({ mark, message: says }) => `${mark}: ${says}`)
    expect(await transfers(p!, d!)).toEqual([
      'ok: NixlConnector as kv_producer, role prefill',
      'ok: NixlConnector as kv_consumer, role decode',
    ])
    expect(await transfers(d!, n!)).toEqual([
      'problem: NixlConnector as kv_consumer, but the configured role is prefill',
      'problem: no connector, but the configured role is decode',
    ])
  })

  it('doctor before simulated engines measures how long an idle connection lives', async () => {
    const url = await start()
    expect((await visit(url, '--idle-s', '0.2')).find('keep_alive')).toMatchObject({
      mark: 'ok',
      message: expect.stringContaining('more than 0 s'),
    })
  })

  it('doctor before simulated engines prints only findings that are not ok in brief mode', async () => {
    const url = await start()
    const { out } = await visit(url, '--brief')
    expect(out).toContain('· kv events')
    expect(out).not.toContain('✓ health')
    expect(out).toMatch(/\d+ fine, 3 notes, no warnings, no problems\.$/)
  })
})
