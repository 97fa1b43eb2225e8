/** Clients that repeat a refused request before its Retry-After, on any runtime. */
import { beforeEach, describe, expect, it } from 'vitest'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import type { Ports } from '../../src/ports.ts'
import { configOf, onePool, openRecordingPorts, type RecordingPorts } from '../kit/recording-ports.ts'

const keys = ['team-a', 'team-b'].map((name) => ({ name, secret: name, limits: { requests_per_min: 100 } }))
const overloaded: Refusal = { reason: 'overloaded', limit: 'itl', detail: 'no room', retryAfterMs: 2_000 }

const pools = onePool.pools.map((pool) => ({ ...pool, slo: { ttft_ms: 1_000 } }))

export function repeatedRequestsContract(name: string): void {
  let now: number
  let world: RecordingPorts
  let gateway: Gateway
  /** Calls of the pool. */
  let admissions: number

  beforeEach(() => {
    now = 1_000_000
    admissions = 0
    world = openRecordingPorts()
    world.refusal = overloaded
    const cluster: Ports['pool'] = (...pool) => {
      const known = world.ports.pool(...pool)
      return { ...known, admit: (...call) => ((admissions += 1), known.admit(...call)) }
    }
    gateway = createGateway(configOf({ keys, admin: 'admin', clusters: [{ ...onePool, pools }] }), {
      ...world.ports,
      now: () => now,
      pool: cluster,
    })
  })

  const send = (
    prompt: string,
    { key = 'team-a', path = '/v1/completions', from = '192.0.2.1', headers = {} }: TestRequest = {},
  ): Promise<Response> =>
    gateway.fetch(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
        body: JSON.stringify({ model: 'qwen', prompt }),
      }),
      { ...world.scope, remoteAddress: from },
    )

  /** Sends a request, moves the clock, and returns the status and the pool's calls of another one. */
  async function after(
    ms: number,
    prompt: string,
    sent?: TestRequest,
  ): Promise<{ status: number; admissions: number }> {
    await send('Hello')
    now += ms
    admissions = 0
    return { status: (await send(prompt, sent)).status, admissions }
  }

  describe(`${name}: a repeated request`, () => {
    it('a repeated request is refused without a call of the pool, with the rest of its retry time', async () => {
      expect((await send('Hello')).headers.get('retry-after-ms')).toBe('2000')
      now += 99
      world.refusal = null
      const again = await send('Hello')
      expect([again.status, admissions]).toEqual([429, 1])
      expect(again.headers.get('retry-after-ms')).toBe('1901')
      expect(await again.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'overloaded' } })
    })

    it('a repeated request is decided anew after 100 ms, also if it was repeated or others were refused meanwhile', async () => {
      await send('Hello')
      now += 60
      for (const prompt of ['Hello', 'Hallo']) expect((await send(prompt)).status).toBe(429)
      now += 40
      world.refusal = null
      expect([(await send('Hello')).status, admissions]).toEqual([200, 3])
    })

    it('a repeated request is decided anew after a shorter retry time, and if the clock was set back', async () => {
      world.refusal = { ...overloaded, retryAfterMs: 50 }
      expect(await after(50, 'Hello')).toEqual({ status: 429, admissions: 1 })
      expect(await after(-1, 'Hello')).toEqual({ status: 429, admissions: 1 })
    })

    it.each<[string, string, TestRequest]>([
      ['another prompt', 'Hallo', {}],
      ['another key', 'Hello', { key: 'team-b' }],
      ['another address', 'Hello', { from: '192.0.2.2' }],
      ['another path', 'Hello', { path: '/v1/embeddings' }],
      ['another session', 'Hello', { headers: { 'x-session-id': 'other' } }],
      ['options', 'Hello', { headers: { 'x-firstlight-options': '{"class":"sheddable"}' } }],
    ])('a repeated request with %s is decided anew', async (_, prompt, sent) => {
      expect(await after(1, prompt, sent)).toEqual({ status: 429, admissions: 1 })
    })

    it.each<[string, Partial<Refusal>]>([
      ['a deadline', { limit: 'deadline' }],
      ['an engine limit', { reason: 'engines_full' }],
      ['no engine', { reason: 'no_engine' }],
    ])('a repeated request that was refused for %s is decided anew', async (_, changes) => {
      world.refusal = { ...overloaded, ...changes }
      expect((await after(1, 'Hello')).admissions).toBe(1)
    })

    it('a repeated request takes nothing more of the limits of its key, and counts as refused in its usage', async () => {
      for (let times = 0; times < 5; times++) await send('Hello')
      world.refusal = null
      expect((await send('Hallo')).headers.get('x-ratelimit-remaining-requests')).toBe('98')
      const admin = { headers: { authorization: 'Bearer admin' } }
      const usage = await gateway.fetch(new Request('http://localhost/v1/firstlight/usage', admin), world.scope)
      expect(await usage.text()).toMatch(/"refused":5\b/)
    })
  })
}

interface TestRequest {
  readonly key?: string
  readonly path?: string
  readonly from?: string
  readonly headers?: Readonly<Record<string, string>>
}
