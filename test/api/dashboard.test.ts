import { RequestHistory } from '../../src/api/request-history.ts'
import { FleetHistory } from '../../src/core/reports/fleet-history.ts'
import { KeyUsage } from '../../src/core/limits/key-usage.ts'
import { CacheLookups } from '../../src/origin/lmcache/cache-lookups.ts'
import { Telemetry } from '../../src/telemetry/telemetry.ts'
import { afterEach, describe, expect, it } from 'vitest'
import { ModelRegistry } from '../../src/api/model-registry.ts'
import { openaiErrors } from '../../src/protocols/error-shape.ts'
import { RequestContext } from '../../src/api/request-context.ts'
import { DashboardStream, type LiveOptions } from '../../src/api/dashboard-stream.ts'
import type { Decision } from '../../src/core/contract/decision.ts'
import type { EngineDigest } from '../../src/core/contract/pool-digest.ts'
import { createGateway } from '../../src/gateway.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { AssetFiles } from '../../src/ports/assets.ts'
import { configOf, onePool, openRecordingPorts } from '../kit/recording-ports.ts'

const files: AssetFiles = async (name) =>
  ['overview.html', 'index.html', 'runbook.html', 'index-a1.js', 'index-a1.css'].includes(name)
    ? new TextEncoder().encode(`file ${name}`)
    : null

async function get(path: string, assets?: AssetFiles): Promise<Response> {
  const world = openRecordingPorts()
  const gateway = createGateway(configOf({ admin: 'boss' }), world.ports, assets === undefined ? {} : { assets })
  return gateway.fetch(new Request(`http://localhost${path}`), world.scope)
}

describe('the pages', () => {
  it.each([
    ['/', 'overview.html'],
    ['/dashboard', 'index.html'],
    ['/runbook', 'runbook.html'],
  ])(
    '%s is the built page, to be asked for anew each time, under a policy that lets nothing inline run',
    async (path, name) => {
      const response = await get(path, files)
      expect(await response.text()).toBe(`file ${name}`)
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(response.headers.get('cache-control')).toBe('no-cache')
      expect(response.headers.get('content-security-policy')).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self';(?!.*unsafe)/,
      )
    },
  )

  it('the dashboard serves its files with their types, to be kept for good', async () => {
    for (const [name, type] of [
      ['index-a1.js', 'text/javascript; charset=utf-8'],
      ['index-a1.css', 'text/css; charset=utf-8'],
    ] as const) {
      const response = await get(`/dashboard/${name}`, files)
      expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([
        200,
        type,
        `file ${name}`,
      ])
      expect(response.headers.get('cache-control')).toContain('immutable')
    }
  })

  it.each(['gone-b2.js', 'index.html', '..%2fpackage.json', '%2e%2e%2fnode.js', 'a.b.js', '.js'])(
    'the dashboard has no file %s',
    async (name) => {
      expect(
        (await get(`/dashboard/${name}`, async () => (name === 'gone-b2.js' ? null : new Uint8Array(1)))).status,
      ).toBe(404)
    },
  )

  it('the dashboard explains how to build it if it is missing', async () => {
    const response = await get('/')
    expect(response.status).toBe(503)
    expect(await response.text()).toContain('npm run build:dashboard')
  })

  it('the dashboard redirects the path with a slash to the one without, behind any prefix', async () => {
    const response = await get('/dashboard/', files)
    expect([response.status, response.headers.get('location')]).toEqual([308, '../dashboard'])
  })
})

const twoPools = parseConfig(
  { version: 7, clusters: [onePool, { ...onePool, id: 'rome' }] },
  {},
  { defaultVersion: 1, defaultObserveShare: 1, listens: true },
)

function watch(options: LiveOptions = {}) {
  const world = openRecordingPorts()
  const context = {
    ports: { ...world.ports, now: () => performance.now() },
    config: twoPools,
    models: new ModelRegistry(twoPools),
    digests: { order: () => [], regionDigests: () => [], regionStatus: async () => null },
    startedAt: 1,
    status: { configRefusedAt: null, draining: false, retired: false },
    workerGroup: null,
    recent: new RequestHistory(10),
    usage: new KeyUsage(),
    history: new FleetHistory(),
    lookups: new CacheLookups(world.ports),
    telemetry: new Telemetry(world.ports, twoPools.traces, 't'),
    weighted: null,
    mirrorCounts: null,
    costs: null,
    budgets: null,
  }
  const queries: string[] = []
  const { pool: cluster } = world.ports
  let dark = ''
  context.ports.pool = (id, pool) => ({
    ...cluster(id, pool),
    digest: async () => {
      queries.push(id)
      if (id === dark) throw new Error('the object is out of reach')
      return cluster(id, pool).digest()
    },
  })
  const live = new DashboardStream(context, { everyMs: 20, ...options })
  const open = (method = 'GET') =>
    live.open(
      new RequestContext(
        new Request('http://localhost/v1/firstlight/live', { method }),
        world.scope,
        context.ports,
        openaiErrors,
      ),
    )
  return { context, queries, open, darken: (id: string) => (dark = id) }
}

const feeds: ReadableStreamDefaultReader<Uint8Array>[] = []
afterEach(async () => {
  await Promise.all(feeds.splice(0).map((feed) => feed.cancel()))
})

function follow(response: Response) {
  const reader = response.body!.getReader()
  feeds.push(reader)
  return {
    /** null: the feed has ended. */
    next: async () => {
      const { value } = await reader.read()
      if (value === undefined) return null
      const [, id, json] = /^id: (\d+)\nevent: view\ndata: (.*)\n\n$/.exec(new TextDecoder().decode(value))!
      return {
        id: Number(id),
        view: JSON.parse(json!) as Record<string, unknown> & { readonly pools: readonly Record<string, unknown>[] },
      }
    },
    leave: () => reader.cancel(),
  }
}

describe('/v1/firstlight/live', () => {
  it('the live feed requires the admin key', async () => {
    expect((await get('/v1/firstlight/live')).status).toBe(401)
  })

  it('the live feed sends the fleet at once, then again and again', async () => {
    const { open } = watch()
    const feed = follow(open())
    const first = await feed.next()
    expect(first?.view).toMatchObject({
      config_version: 7,
      started_at: 1,
      draining: false,
      decisions: [],
      traffic: { output_tokens_total: 0, rejected_total: {} },
    })
    expect(first?.view.pools).toMatchObject([
      { cluster: 'paris', reachable: true, bookings: 3 },
      { cluster: 'rome', reachable: true, bookings: 3 },
    ])
    expect([(await feed.next())?.id, (await feed.next())?.id]).toEqual([2, 3])
  })

  it('the live feed sends five digits of a number, and whole ones as they are', async () => {
    const { open, context } = watch()
    context.startedAt = 1_795_271_106_911
    const { pool: cluster } = context.ports
    const measured = { id: 'a', ttftMs: 1000 / 3, activeBlocks: 1_234_567 } as EngineDigest
    context.ports.pool = (...name) => ({
      ...cluster(...name),
      digest: async () => ({ ...(await cluster(...name).digest()), engines: [measured] }),
    })
    const view = (await follow(open()).next())?.view
    expect(view).toMatchObject({ started_at: 1_795_271_106_911 })
    expect(view?.pools[0]?.['engines']).toEqual([{ id: 'a', ttft_ms: 333.33, active_blocks: 1_234_567 }])
  })

  it('the live feed sends the latest first tokens too, each decision once, when newer requests fill the list', async () => {
    const { open, context } = watch()
    const { pool: cluster } = context.ports
    const decision = (id: string, at: number) =>
      ({ id, attempt: 0, at, excluded: [], actual: null }) as unknown as Decision
    const firstToken = { ttftMs: 40, stages: { ttft: 40 } }
    const streams = { ...decision('streams', 1), firstToken }
    const both = { ...decision('both', 60), firstToken }
    const waiting = Array.from({ length: 59 }, (_, index) => decision(`waits-${index}`, index + 1))
    context.ports.pool = (id, pool) => ({
      ...cluster(id, pool),
      overview: {
        summary: async () => ({
          digest: await cluster(id, pool).digest(),
          decisions: id === 'paris' ? [both, ...waiting.toReversed()] : [],
          measured: id === 'paris' ? [{ ...both }, streams] : [],
        }),
      },
    })
    const view = (await follow(open()).next())?.view as unknown as { decisions: { id: string }[] }
    expect(view.decisions).toHaveLength(61)
    expect(view.decisions[0]).toMatchObject({ id: 'both', first_token: { ttft_ms: 40 } })
    expect(view.decisions.filter(({ id }) => id === 'streams')).toMatchObject([
      { first_token: { ttft_ms: 40, stages: { ttft: 40 } }, actual: null },
    ])
  })

  it('the live feed creates one view for all viewers', async () => {
    const { open, queries } = watch()
    const viewers = Array.from({ length: 10 }, () => follow(open()))
    let last = 0
    for (let round = 0; round < 3; round++)
      last = Math.max(...(await Promise.all(viewers.map((viewer) => viewer.next()))).map((frame) => frame!.id))
    // Each view queries each of the two pools once; the last one may still be in transit.
    expect(queries.length).toBeLessThanOrEqual(2 * (last + 1))
  })

  it('the live feed shows a pool whose object is unreachable as such, and the others unchanged', async () => {
    const { open, darken } = watch()
    darken('rome')
    const { view } = (await follow(open()).next())!
    expect(view.pools).toMatchObject([
      { reachable: true },
      {
        reachable: false,
        engines: [
          { id: 'a', available: null },
          { id: 'b', available: null },
        ],
      },
    ])
  })

  it('the live feed rejects a viewer beyond the limit, and accepts another after one has left', async () => {
    const { open } = watch({ viewers: 2 })
    const first = follow(open())
    follow(open())
    expect(() => open()).toThrow('This gateway has 2 dashboard viewers, the maximum')
    await first.leave()
    expect(await follow(open()).next()).not.toBeNull()
  })

  it('the live feed does not count a HEAD request as a viewer', () => {
    const { open } = watch({ viewers: 1 })
    expect(open('HEAD').body).toBeNull()
    expect(open('HEAD').headers.get('content-type')).toBe('text/event-stream')
  })

  it('the live feed ends when the gateway drains', async () => {
    const { open, context } = watch()
    const feed = follow(open())
    await feed.next()
    context.status.draining = true
    expect(await feed.next()).toBeNull()
  })

  it('the live feed ends after the maximum number of views or the maximum time, and frees its slot', async () => {
    const { open } = watch({ maxSnapshots: 2, viewers: 1 })
    const feed = follow(open())
    expect([(await feed.next())?.id, (await feed.next())?.id, await feed.next()]).toEqual([1, 2, null])
    const brief = watch({ lifeMs: 1, viewers: 1 })
    const over = follow(brief.open())
    while ((await over.next()) !== null);
    expect(() => follow(brief.open())).not.toThrow()
  })
})
