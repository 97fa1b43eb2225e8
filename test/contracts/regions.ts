/**
 * An edge in front of regional gateways, on any runtime: the choice of region, failover when one is full, draining or
 * down, and the exchanged digests.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRegionDigestResponse } from '../../src/origin/regions/region-digest-response.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const CLIENT = 'client-key-1'
const EDGE = 'edge-key-2'
const PLAIN = 'plain-key-3'
const ADMIN = 'admin-key-4'
const CHAT = '/v1/chat/completions'
const DIGEST_PATH = '/v1/firstlight/digest'
const DIGEST_MS = 200
const NAMES = ['paris', 'tokyo'] as const
type Name = (typeof NAMES)[number]

interface Region {
  readonly fleet: RunningFleet
  gateway: RunningGateway
}

interface PoolView {
  readonly cluster: string
  readonly bookings: number
  readonly gateway?: { readonly reachable: boolean; readonly engines: number } | null
  readonly engines: readonly {
    readonly id: string
    readonly requests_total: number
    readonly draining: boolean
    readonly circuit: string
  }[]
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** Number of prompts so far: each prompt has a different first word. */
let written = 0
const promptOf = (words: number): string => {
  const own = ++written
  return Array.from({ length: words }, (_, at) => ((at * 2_654_435_761 + own * 40_503) >>> 0).toString(36)).join(' ')
}

export function regionsContract(
  runtime: Runtime,
  /** `observe_share` of the edge's pools. */
  observeShare: number,
): void {
  const name = `gateways on ${runtimeNames[runtime]}${observeShare === 0 ? ', natively' : ''}`
  const regions = {} as Record<Name, Region>
  let edge: RunningGateway
  let version = 1

  const regional = (fleet: RunningFleet) => ({
    version: ++version,
    keys: [
      { name: 'edge', secret: EDGE, edge: true, allow_overrides: true },
      { name: 'plain', secret: PLAIN },
    ],
    admin: { secret: ADMIN },
    clusters: [
      {
        id: 'here',
        generation: version,
        pools: [
          {
            model: 'sim',
            stats_interval_ms: 200,
            engines: fleet.urls.map((url, i) => ({ id: `e${i}`, url, max_in_flight: 4 })),
          },
        ],
      },
    ],
  })

  const edged = (urls: Record<Name, string>) => ({
    version: ++version,
    keys: [{ name: 'clients', secret: CLIENT, allow_overrides: true }],
    admin: { secret: ADMIN },
    clusters: NAMES.map((id) => ({
      id,
      region: id,
      gateway: {
        url: urls[id],
        key: EDGE,
        rtt_ms: 5,
        digest_interval_ms: DIGEST_MS,
        models: [{ model: 'sim', aliases: ['a-name'], observe_share: observeShare, circuit: { open_ms: 300 } }],
      },
    })),
  })

  const urls = (): Record<Name, string> => ({ paris: regions.paris.gateway.url, tokyo: regions.tokyo.gateway.url })

  const send = (
    base: string,
    path: string,
    {
      key = CLIENT,
      body,
      headers = {},
    }: { readonly key?: string; readonly body?: object; readonly headers?: Readonly<Record<string, string>> } = {},
  ) =>
    fetch(base + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...bearer(key), 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

  const chat = (prompt: string, more: object = {}) => ({
    model: 'sim',
    max_tokens: 4,
    messages: [{ role: 'user', content: prompt }],
    ...more,
  })

  /** Sends a chat through the edge. `cluster` is the region that served it. */
  async function ask(
    prompt: string,
    more: object = {},
  ): Promise<{ readonly status: number; readonly cluster: Name; readonly headers: Headers; readonly text: string }> {
    const response = await send(edge.url, CHAT, { body: chat(prompt, more) })
    const text = await response.text()
    return {
      status: response.status,
      cluster: response.headers.get('x-firstlight-cluster') as Name,
      headers: response.headers,
      text,
    }
  }

  /** Resolves when the edge has the number of available engines of each region. */
  async function waitForDigests(engines: Record<Name, number> = { paris: 2, tokyo: 2 }): Promise<void> {
    await until(async () => {
      const seen = new Map(
        (await pools(edge.url)).map(({ cluster, gateway }) => [
          cluster,
          gateway?.reachable === true ? gateway.engines : null,
        ]),
      )
      return NAMES.every((one) => seen.get(one) === engines[one])
    }, 20)
  }

  const pools = async (base: string): Promise<readonly PoolView[]> =>
    ((await (await send(base, '/v1/firstlight/fleet', { key: ADMIN })).json()) as { pools: readonly PoolView[] }).pools

  /** The edge's current choice of region. */
  async function placed(prompt: string): Promise<Name> {
    const answer = await send(edge.url, '/v1/firstlight/route', { key: ADMIN, body: chat(prompt) })
    return ((await answer.json()) as { readonly decision: { readonly cluster: Name } }).decision.cluster
  }

  /** A long prompt that the edge sends to this region while no region has its prefix. */
  async function promptWithAffinityTo(region: Name): Promise<string> {
    for (;;) {
      const prompt = promptOf(1_200)
      if ((await placed(prompt)) === region) return prompt
    }
  }

  /** Resolves when no gateway has a booking. */
  async function idle(): Promise<void> {
    for (const base of [edge.url, ...Object.values(urls())]) {
      await until(async () => (await pools(base)).every(({ bookings }) => bookings === 0), 20)
    }
  }

  const regionDigests = async () =>
    JSON.stringify(
      await Promise.all(
        NAMES.map(async (one) => (await send(urls()[one], `${DIGEST_PATH}?model=sim`, { key: EDGE })).json()),
      ),
    )

  beforeAll(async () => {
    for (const one of NAMES) {
      const fleet = await startFleet({ engines: 2, model: 'sim', profile: 'demo' })
      regions[one] = { fleet, gateway: await startRuntime(runtime, regional(fleet)) }
    }
    edge = await startRuntime(runtime, edged(urls()))
    await waitForDigests()
  })

  afterAll(async () => {
    await edge.close()
    for (const { gateway, fleet } of Object.values(regions)) {
      await gateway.close()
      await fleet.close()
    }
  })

  describe(`regions and ${name}`, () => {
    it('answer through the edge, and name the region and its engine', async () => {
      const { status, cluster, headers, text } = await ask('Hello', { model: 'a-name' })
      expect(status).toBe(200)
      expect(JSON.parse(text)).toMatchObject({ usage: { completion_tokens: 4 } })
      expect(NAMES).toContain(cluster)
      expect(headers.get('x-firstlight-engine')).toMatch(/^e[01]$/)
      expect(headers.get('x-firstlight-policy')).toBe('predicted')
    })

    it('stream', async () => {
      const { text } = await ask('Hello', { stream: true })
      expect(text).toContain('"delta"')
      expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
      expect(text.match(/\[DONE\]/g)).toHaveLength(1)
    })

    it('regions of an edge get a prompt whose prefix they have, whichever client sent it', async () => {
      for (const [holder, other] of [NAMES, NAMES.toReversed()] as [Name, Name][]) {
        const prompt = await promptWithAffinityTo(other)
        expect((await send(regions[holder].gateway.url, CHAT, { key: EDGE, body: chat(prompt) })).status).toBe(200)
        // The sample of cached prefixes is renewed once a second, whatever the number of queries.
        await expect.poll(() => placed(`${prompt} And then?`), { interval: 200 }).toBe(holder)
        expect((await ask(`${prompt} And then?`)).cluster, await regionDigests()).toBe(holder)
      }
    })

    it('regions of an edge receive the gateway headers of a request', async () => {
      expect((await ask('Hello', { firstlight: { policy: 'round_robin' } })).headers.get('x-firstlight-policy')).toBe(
        'round_robin',
      )
    })

    it('regions of an edge log the edge’s request id', async () => {
      const { headers, cluster } = await ask('Hello')
      const id = headers.get('x-request-id')!
      const known = await send(regions[cluster].gateway.url, `/v1/firstlight/requests/${id}`, { key: ADMIN })
      expect(known.status).toBe(200)
      expect(await known.text()).toContain(id)
    })

    it('export their digest to keys with `edge`, and to no others', async () => {
      const { url } = regions.paris.gateway
      const body = await (await send(url, `${DIGEST_PATH}?model=sim`, { key: EDGE })).json()
      expect(body).toMatchObject({ cut: expect.any(Number) })
      expect(readRegionDigestResponse(body)).toMatchObject({
        fingerprint: expect.any(Number),
        regionDigests: [{ cluster: 'here', pool: 'sim', engines: 2, soonest: { waitS: expect.any(Number) } }],
      })
      expect((await send(url, `${DIGEST_PATH}?model=sim`, { key: PLAIN })).status).toBe(403)
      expect((await send(url, `${DIGEST_PATH}?model=sim`, { key: 'wrong' })).status).toBe(401)
      expect((await send(url, `${DIGEST_PATH}?model=other`, { key: EDGE })).status).toBe(404)
      const withoutModel = await send(url, DIGEST_PATH, { key: EDGE })
      expect(withoutModel.status).toBe(400)
      expect(await withoutModel.json()).toMatchObject({ error: { param: 'model' } })
    })

    it('regions of an edge never see a client’s key', async () => {
      // The region has only the edge's key, so it rejects the client's.
      expect((await send(regions.paris.gateway.url, CHAT, { key: CLIENT, body: chat('Hello') })).status).toBe(401)
      expect((await ask('Hello')).status).toBe(200)
    })

    it('regions of an edge replace each other when one is full, and refuse when all are', async () => {
      const long = { stream: true, max_tokens: 4_000 }
      const gone = new AbortController()
      const running = await Promise.all(
        Array.from({ length: 16 }, async () => {
          const response = await fetch(edge.url + CHAT, {
            method: 'POST',
            headers: { ...bearer(CLIENT), 'content-type': 'application/json' },
            body: JSON.stringify(chat(promptOf(3), long)),
            signal: gone.signal,
          })
          return response
        }),
      )
      expect(running.map(({ status }) => status).filter((status) => status !== 200)).toEqual([])
      const byRegion = NAMES.map(
        (one) => running.filter(({ headers }) => headers.get('x-firstlight-cluster') === one).length,
      )
      expect(byRegion).toEqual([8, 8])
      const refused = await ask('one more')
      expect(refused.status).toBe(429)
      expect(refused.headers.get('retry-after')).not.toBeNull()
      expect(JSON.parse(refused.text)).toMatchObject({ error: { code: 'engines_full' } })
      expect(refused.text).not.toContain('127.0.0.1')
      gone.abort()
      await Promise.allSettled(running.map((response) => response.text()))
      await idle()
    })

    it('regions of an edge keep stored responses: a later call reaches the region that has it', async () => {
      const made = await send(edge.url, '/v1/responses', {
        body: { model: 'sim', input: 'Hello', max_output_tokens: 4 },
      })
      const { id } = (await made.json()) as { id: string }
      const found = await send(edge.url, `/v1/responses/${id}`)
      expect({ status: found.status, cluster: found.headers.get('x-firstlight-cluster') }).toEqual({
        status: 200,
        cluster: made.headers.get('x-firstlight-cluster'),
      })
    })

    it('regions of an edge leave no bookings', async () => {
      await ask('Hello')
      await idle()
    })

    it('regions of an edge are skipped by the edge when they are down', async () => {
      await regions.tokyo.gateway.close()
      const answers = []
      for (let i = 0; i < 12; i++) answers.push(await ask(promptOf(3)))
      expect(answers.map(({ status, cluster }) => `${status} ${cluster}`).filter((one) => one !== '200 paris')).toEqual(
        [],
      )
      regions.tokyo.gateway = await startRuntime(runtime, regional(regions.tokyo.fleet))
      await edge.close()
      edge = await startRuntime(runtime, edged(urls()))
      await waitForDigests()
    })

    it('regions of an edge are ranked by their own digests: a region without available engines is last', async () => {
      for (const [one, other] of [NAMES, NAMES.toReversed()] as [Name, Name][]) {
        for (const engine of ['e0', 'e1'])
          expect(
            (await send(regions[one].gateway.url, `/v1/firstlight/engines/${engine}/drain`, { key: ADMIN, body: {} }))
              .status,
          ).toBe(200)
        await waitForDigests({ paris: 2, tokyo: 2, [one]: 0 })
        for (let i = 0; i < 6; i++) expect(await ask(promptOf(3))).toMatchObject({ status: 200, cluster: other })
        for (const engine of ['e0', 'e1'])
          await send(regions[one].gateway.url, `/v1/firstlight/engines/${engine}/undrain`, { key: ADMIN, body: {} })
      }
    })
  })
}
