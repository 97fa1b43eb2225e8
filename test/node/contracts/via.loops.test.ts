/**
 * Two real gateways that are each other's engine, and one behind a balancer that is its own engine: responses to
 * clients, logs, and findings of the doctor.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { startFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { openReverseProxy } from '../../kit/reverse-proxy.ts'
import { ownPorts } from '../../own-ports.ts'
import { visitPool } from '../../cli/doctor/ask.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const at = (port: number): string => `http://127.0.0.1:${port}`
const poolOf = (engines: Readonly<Record<string, string>>, more: object = {}) => ({
  model: 'sim',
  policy: 'round_robin',
  retry: { share: 1, min_per_s: 1000 },
  circuit: { failures: 3, open_ms: 60_000 },
  engines: Object.entries(engines).map(([id, url]) => ({ id, url })),
  ...more,
})

async function start(port: number, pool: object): Promise<NodeGateway> {
  const document = { log: { level: 'info' }, clusters: [{ id: 'one', pools: [pool] }] }
  const gateway = await startNodeGateway(document, { port })
  closing.push(() => gateway.stop(AbortSignal.abort()))
  return gateway
}

/** Starts a balancer in front of a gateway that looks like an engine. */
async function balancerTo(port: number): Promise<string> {
  const balancer = await openReverseProxy(() => ({ to: at(port) }))
  closing.push(() => balancer.close())
  return balancer.url
}

async function engine(): Promise<string> {
  const fleet = await startFleet({ engines: 1, model: 'sim', profile: 'instant', port: ownPorts(2) })
  closing.push(() => fleet.close())
  return fleet.urls[0]!
}

async function ask(
  url: string,
  more: object = {},
): Promise<{
  readonly status: number
  readonly by: string | null
  readonly retry: string | null
  readonly body: string
}> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim', max_tokens: 2, messages: [{ role: 'user', content: 'x' }], ...more }),
  })
  return {
    status: response.status,
    by: response.headers.get('x-firstlight-engine'),
    retry: response.headers.get('x-should-retry'),
    body: await response.text(),
  }
}

const logged = ({ lines }: NodeGateway, event: string) => lines.filter((line) => line['event'] === event)
/** Answers to chats, without those to the other gateway's probes. */
const refusals = (gateway: NodeGateway) =>
  logged(gateway, 'request')
    .filter(({ path }) => path === '/v1/chat/completions')
    .map(({ status, reason }) => [status, reason])

async function seenBy(
  { url }: NodeGateway,
  wanted: string,
): Promise<{ readonly circuit: string; readonly healthy: boolean | null }> {
  const { pools } = (await (await fetch(`${url}/v1/firstlight/fleet`)).json()) as {
    pools: readonly { engines: readonly { id: string; circuit: string; healthy: boolean | null }[] }[]
  }
  return pools[0]!.engines.find(({ id }) => id === wanted)!
}
const circuitOf = async (gateway: NodeGateway, wanted: string): Promise<string> =>
  (await seenBy(gateway, wanted)).circuit

/** Resolves when the gateway that started first has found the other one: its first query failed. */
const knows = (gateway: NodeGateway, wanted: string): Promise<void> =>
  expect.poll(async () => (await seenBy(gateway, wanted)).healthy).toBe(true)

describe('two gateways that are each other’s engine', () => {
  it('two gateways that are each other’s engine end a request after one round; the logs have the address of the loop, the client gets none', async () => {
    const [a, b] = [ownPorts(1), ownPorts(1)]
    const [one, two] = [await start(a, poolOf({ two: at(b) })), await start(b, poolOf({ one: at(a) }))]
    await knows(one, 'two')
    for (const more of [{}, { stream: true }]) {
      one.lines.length = two.lines.length = 0
      const answer = await ask(one.url, more)
      expect([answer.status, answer.retry, JSON.parse(answer.body)]).toMatchObject([
        508,
        'false',
        { error: { code: 'loop_detected' } },
      ])
      expect(answer.body).not.toMatch(/127\.0|\d{5}/)
      await expect
        .poll(() => [refusals(one), refusals(two)])
        .toEqual([
          [
            [508, 'loop'],
            [508, 'loop'],
          ],
          [[508, 'loop']],
        ])
      expect(logged(two, 'loop_detected')).toMatchObject([{ level: 'warn', cluster: 'one', engine: 'one', url: at(a) }])
      expect(logged(one, 'loop_detected')).toMatchObject([{ level: 'warn', cluster: 'one', engine: 'two', url: at(b) }])
    }
    expect(await (await fetch(`${one.url}/metrics`)).text()).toContain(
      'firstlight_rejected_requests_total{reason="loop"} 2\n',
    )
  })

  it('two gateways that are each other’s engine serve every request if one of them has an engine, and open no circuit for refused loops', async () => {
    const [a, b] = [ownPorts(1), ownPorts(1)]
    const [one, two] = [
      await start(a, poolOf({ two: at(b) })),
      await start(b, poolOf({ one: at(a), real: await engine() })),
    ]
    await knows(one, 'two')
    for (let i = 0; i < 12; i++)
      expect(await ask(one.url, { stream: i % 2 === 0 })).toMatchObject({ status: 200, by: 'two' })
    expect(logged(one, 'loop_detected')).toEqual([])
    expect(logged(two, 'loop_detected').length).toBeGreaterThan(3)
    expect([await circuitOf(one, 'two'), await circuitOf(two, 'one')]).toEqual(['closed', 'closed'])
    // For the first one that queries the other, there is nothing behind it.
    for (let i = 0; i < 12; i++) expect(await ask(two.url)).toMatchObject({ status: 200, by: 'real' })
    expect(await circuitOf(one, 'two')).toBe('closed')
    // The gateway's own trial, which is no loop, may have half-opened it.
    expect(['open', 'half_open']).toContain(await circuitOf(two, 'one'))
  })

  it('two gateways that are each other’s engine return a retryable error if the other one’s engine is only away or full', async () => {
    const [a, b] = [ownPorts(1), ownPorts(1)]
    const away = await start(a, poolOf({ two: at(b), away: at(ownPorts(1)) }))
    await start(b, poolOf({ one: at(a) }))
    await knows(away, 'two')
    const answer = await ask(away.url)
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([503, { error: { code: 'no_engine_available' } }])
  })
})

describe('a gateway whose engine is a load balancer in front of it', () => {
  it('a gateway whose engine is a load balancer in front of it is reported by the doctor', async () => {
    const port = ownPorts(1)
    const pool = poolOf({ round: await balancerTo(port), real: await engine() })
    await start(port, pool)
    const seen = await visitPool(pool)
    const [round, real] = seen.subjects
    expect(round).toMatchObject({
      name: 'round',
      findings: [
        { check: 'health', mark: 'problem', message: 'the address leads back to the gateway of this configuration' },
      ],
    })
    expect(real!.findings.find(({ check }) => check === 'health')).toMatchObject({ mark: 'ok' })
    expect(seen.code).toBe(1)
  })

  it('a gateway whose engine is a load balancer in front of it is reported also if another gateway is in between', async () => {
    const [a, b] = [ownPorts(1), ownPorts(1)]
    const pool = poolOf({ two: at(b) })
    await start(a, pool)
    await start(b, poolOf({ one: at(a) }))
    const seen = await visitPool(pool)
    expect(seen.find('completion')).toMatchObject({
      mark: 'problem',
      message: expect.stringMatching(/508.*Routing loop/),
    })
  })
})
