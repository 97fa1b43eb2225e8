/** Engines of regions in the views of an edge, and drained there, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

const REGION_ADMIN = 'admin-key-of-the-region'

interface RegionEngine {
  readonly cluster: string
  readonly id: string
  readonly draining: boolean
}

interface Pool {
  readonly cluster: string
  readonly region_engines?: readonly RegionEngine[] | null
}

export function regionEnginesContract(runtime: Runtime): void {
  describe(`the engines of regions at an edge on ${runtimeNames[runtime]}`, () => {
    const open: { close(): Promise<unknown> | void }[] = []
    let engines: readonly FakeEngine[]
    let region: TestGateway
    let edge: TestGateway

    beforeAll(async () => {
      const start = () => FakeEngine.open({ 'GET *': { body: {} }, 'POST *': { body: completion() } })
      engines = [await start(), await start()]
      region = await openGateway({
        runtime,
        config: {
          open: false,
          keys: [{ name: 'edge', secret: 'edge-key', edge: true, allow_overrides: true }],
          admin: { secret: REGION_ADMIN },
          clusters: [
            {
              id: 'here',
              pools: [{ model: MODEL, engines: engines.map(({ url }, at) => ({ id: `e${at}`, url })) }],
            },
          ],
        },
      })
      const gateway = (key: object) => ({ url: region.url, key: 'edge-key', models: [{ model: MODEL }], ...key })
      edge = await openGateway({
        runtime,
        config: {
          clusters: [
            { id: 'paris', gateway: gateway({ admin_key: REGION_ADMIN }) },
            { id: 'closed', weight: 0, gateway: gateway({}) },
            { id: 'wrong', weight: 0, gateway: gateway({ admin_key: 'another-key' }) },
          ],
        },
      })
      open.push(...engines, region, edge)
    })
    afterAll(async () => {
      for (const one of open.splice(0).reverse()) await one.close()
    })

    const pools = async (): Promise<readonly Pool[]> => (await edge.fleet()).pools as unknown as readonly Pool[]
    const command = (path: string) =>
      edge.post(`/v1/firstlight/engines/${path}`, {}, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
    /** Engines that the region shows. A view of a busy machine may lack them: it does not wait for a late region. */
    const shown = (): Promise<readonly RegionEngine[]> => until(async () => (await pools())[0]!.region_engines ?? null)
    const draining = async (): Promise<readonly string[]> =>
      (await shown()).filter((one) => one.draining).map(({ id }) => id)

    it('engines of a region are in the fleet view with the region’s admin key, and in no other case', async () => {
      expect(await shown()).toMatchObject([
        { cluster: 'here', id: 'e0', draining: false },
        { cluster: 'here', id: 'e1', draining: false },
      ])
      const [, closed, wrong] = await pools()
      expect(closed).not.toHaveProperty('region_engines')
      expect(wrong!.region_engines).toBeNull()
      const text = await (await edge.get('/v1/firstlight/fleet')).text()
      for (const hidden of [REGION_ADMIN, 'edge-key', ...engines.map(({ url }) => url)])
        expect(text).not.toContain(hidden)
    })

    it('engines of a region are drained and undrained at the edge', async () => {
      const drained = await command('e0/drain?cluster=paris')
      expect(drained.status).toBe(200)
      expect(await drained.json()).toEqual({ cluster: 'paris', region_cluster: 'here', engine: 'e0', draining: true })
      expect(await draining()).toEqual(['e0'])
      const before = engines[0]!.posts.length
      for (let at = 0; at < 4; at++) {
        const answer = await edge.chat({ user: `user ${at}` })
        expect([answer.status, answer.headers.get('x-firstlight-engine')]).toEqual([200, 'e1'])
        await answer.text()
      }
      expect(engines[0]!.posts.length).toBe(before)
      expect((await command('e0/undrain?cluster=paris&region_cluster=here')).status).toBe(200)
      expect(await draining()).toEqual([])
    })

    it.each([
      ['e9/drain?cluster=paris', 404, "There is no engine 'e9' in the region of cluster 'paris'."],
      ['e0/drain?cluster=closed', 404, "There is no engine 'e0' in a cluster 'closed'."],
      ['e0/drain?cluster=wrong', 503, "The gateway of cluster 'wrong' rejects `gateway.admin_key`."],
      ['e0/drain', 404, "There is no engine 'e0'"],
    ])('engines of a region are not drained by %s, and the error says why', async (path, status, message) => {
      const refused = await command(path)
      expect(refused.status).toBe(status)
      expect(await refused.text()).toContain(message)
      expect(await draining()).toEqual([])
    })

    it('engines of a region are in what the edge knows of a request: its record there', async () => {
      const answer = await edge.chat({})
      await answer.text()
      const id = answer.headers.get('x-request-id')!
      const found = await until(async () => {
        const view = (await (await edge.get(`/v1/firstlight/requests/${id}`)).json()) as {
          readonly region?: { readonly cluster: string; readonly record?: { readonly engine: string } | null }
        }
        return view.region?.record != null ? view.region : null
      })
      expect(found).toMatchObject({ cluster: 'paris', record: { engine: answer.headers.get('x-firstlight-engine') } })
    })

    it('engines of a region that is gone are unknown, and cannot be drained', async () => {
      open.splice(open.indexOf(region), 1)
      await region.close()
      await until(async () => (await pools())[0]!.region_engines === null)
      expect((await command('e0/drain?cluster=paris')).status).toBe(503)
    })
  })
}
