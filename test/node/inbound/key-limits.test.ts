import { afterEach, describe, expect, it } from 'vitest'
import { keyLimitsContract } from '../../contracts/key-limits.ts'
import { openGateway } from '../../kit/gateway.ts'
import { openSlowEngine } from '../../kit/held-engine.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { LimitHost } from '../../../src/platform/node/threads/limit-host.ts'
import { until } from '../../wait.ts'
import { memoryLimiter } from '../../../src/memory-limiter.ts'

keyLimitsContract('a gateway on Node', async (document) => {
  const gateway = await startNodeGateway(document)
  return {
    send: (request) => fetch(new Request(gateway.url + new URL(request.url).pathname, request)),
    close: () => gateway.stop(AbortSignal.abort()),
  }
})

describe('limits per key with an engine', () => {
  let fleet: RunningFleet
  let gateway: Awaited<ReturnType<typeof startNodeGateway>>
  afterEach(async () => {
    await gateway.stop(AbortSignal.abort())
    await fleet.close()
  })

  async function start(limits: object): Promise<void> {
    fleet = await startFleet({ engines: 1, profile: 'test' })
    gateway = await startNodeGateway({
      keys: [{ name: 'team', secret: 'team-secret-1', limits }],
      admin: { secret: 'admin-secret-1' },
      clusters: [{ id: 'one', pools: [{ model: 'sim', engines: [{ id: 'a', url: fleet.urls[0]! }] }] }],
    })
  }

  const ask = (more: object): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer team-secret-1', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'Hello' }], ...more }),
    })
  const tokensLeft = (response: Response) => Number(response.headers.get('x-ratelimit-remaining-tokens'))

  it.each([false, true])(
    'limits per key settle tokens by the engine’s count at the end (stream: %s)',
    async (stream) => {
      await start({ tokens_per_min: 10_000, requests_per_min: 100 })
      const usage = { ...(stream ? { stream_options: { include_usage: true } } : {}), stream }
      const first = await ask({ max_tokens: 4, ...usage })
      expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('99')
      const text = await first.text()
      const used = Number(/"total_tokens":(\d+)/.exec(text)![1])
      const second = await ask({ max_tokens: 1_000 })
      const reserved = tokensLeft(second)
      await second.text()
      const third = await ask({ max_tokens: 1_000 })
      // The estimate of the second request is settled too.
      expect(tokensLeft(third)).toBeLessThan(reserved)
      expect(10_000 - reserved - used).toBeGreaterThan(1_000)
      await third.text()
    },
  )

  it('limits per key count the usage of a key, also of refused requests', async () => {
    await start({ requests_per_min: 2 })
    const texts: string[] = []
    for (let at = 0; at < 3; at++) texts.push(await (await ask({ max_tokens: 4 })).text())
    const used = texts.slice(0, 2).map((text) => (JSON.parse(text) as { usage: Record<string, number> }).usage)
    const sum = (name: string) => used.reduce((total, one) => total + one[name]!, 0)
    const get = (path: string) => fetch(gateway.url + path, { headers: { authorization: 'Bearer admin-secret-1' } })
    const { keys } = (await (await get('/v1/firstlight/usage')).json()) as { keys: object[] }
    expect(keys).toEqual([
      expect.objectContaining({
        key: 'team',
        requests: 3,
        refused: 1,
        prompt_tokens: sum('prompt_tokens'),
        output_tokens: sum('completion_tokens'),
      }),
    ])
    expect(await (await get('/metrics')).text()).toContain('firstlight_key_requests_total{key="team"} 3')
    expect((await fetch(`${gateway.url}/v1/firstlight/usage`)).status).toBe(401)
  })
})

it('the place of a request is free again when its client disconnects', async () => {
  await using engine = await openSlowEngine()
  await using gateway = await openGateway({
    engines: [engine],
    config: { open: false, keys: [{ name: 'team', secret: 'team-secret-1', limits: { concurrent: 1 } }] },
  })
  const leaving = new AbortController()
  const headers = { authorization: 'Bearer team-secret-1' }
  const response = await gateway.chat({ stream: true }, { headers, signal: leaving.signal })
  expect(response.status).toBe(200)
  const refused = await gateway.chat({ stream: true }, { headers })
  expect(refused.status).toBe(429)
  expect(await refused.text()).toContain('1 concurrent requests')
  leaving.abort()
  await response.text().catch(() => '')
  const again = await until(async () => {
    const one = await gateway.chat({ stream: true }, { headers })
    if (one.status === 200) return one
    await one.text()
    return null
  }, 20)
  engine.finish()
  expect(await again.text()).toContain('[DONE]')
})

it('the reservations of a thread end when it exits', async () => {
  const limits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: 1 }
  const host = new LimitHost(memoryLimiter(() => 0))
  const reserve = (thread: number, id: string) => host.reserve(thread, { key: 'k', id, limits, tokens: 1 })
  expect((await reserve(1, 'a')).exceeded).toBeNull()
  expect((await reserve(2, 'b')).exceeded).toBe('concurrent')
  host.exited(2)
  expect((await reserve(2, 'c')).exceeded).toBe('concurrent')
  host.exited(1)
  expect((await reserve(2, 'd')).exceeded).toBeNull()
})
