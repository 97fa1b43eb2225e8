/** Names that stand for several models by weight, on any runtime. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

interface Target {
  readonly model: string
  readonly requests: number
  readonly failed: number
  readonly stopped_since: number | null
}

export function weightedModelsContract(runtime: Runtime): void {
  describe(`a weighted model on ${runtimeNames[runtime]}`, () => {
    let old: FakeEngine
    let next: FakeEngine
    let gateway: TestGateway

    beforeEach(async () => {
      old = await FakeEngine.open({ 'POST *': { body: completion('old') } })
      next = await FakeEngine.open({ 'POST *': { body: completion('next') } })
      const pools = [
        { model: 'v1', engines: [{ id: 'old', url: old.url }] },
        { model: 'v2', engines: [{ id: 'next', url: next.url }] },
      ]
      gateway = await openGateway({
        runtime,
        config: {
          open: false,
          admin: { secret: ADMIN_KEY },
          keys: [
            { name: 'ada', secret: 'secret-of-ada', models: ['chat'] },
            { name: 'qa', secret: 'secret-of-qa' },
            { name: 'boss', secret: 'secret-of-boss', allow_overrides: true },
          ],
          clusters: [{ id: 'c', pools }],
          weighted_models: [
            {
              name: 'chat',
              targets: [
                { model: 'v1', weight: 1 },
                { model: 'v2', weight: 1, keys: ['qa'], stop: { failed_share: 0.5, min_requests: 4 } },
              ],
            },
          ],
        },
      })
    })
    afterEach(async () => {
      await gateway.close()
      await Promise.all([old.close(), next.close()])
    })

    const ask = async (key: string, changes: object = {}): Promise<{ status: number; text: string }> => {
      const headers = { authorization: `Bearer secret-of-${key}` }
      const response = await gateway.chat({ model: 'chat', ...changes }, { headers })
      return { status: response.status, text: await response.text() }
    }
    const engineOf = async (key: string, changes?: object): Promise<string> => {
      const before = [old.posts.length, next.posts.length]
      expect((await ask(key, changes)).status).toBe(200)
      return old.posts.length > before[0]! ? 'old' : next.posts.length > before[1]! ? 'next' : 'none'
    }
    const targets = async (): Promise<readonly Target[]> => {
      const response = await gateway.get('/v1/firstlight/weighted-models')
      const { weighted_models: models } = (await response.json()) as {
        weighted_models: { targets: readonly Target[] }[]
      }
      return models[0]!.targets
    }

    it('a conversation stays with its target, and engines get the target’s name', async () => {
      for (const user of ['a', 'b', 'c', 'd', 'e', 'f']) {
        const first = await engineOf('ada', { user })
        expect(await engineOf('ada', { user })).toBe(first)
      }
      expect(new Set(old.posts.map(({ json }) => (json as { model: string }).model))).toEqual(new Set(['v1']))
      expect(new Set(next.posts.map(({ json }) => (json as { model: string }).model))).toEqual(new Set(['v2']))
      await until(async () => (await targets()).reduce((sum, { requests }) => sum + requests, 0) === 12)
      expect((await targets()).map(({ requests }) => requests)).toEqual([old.posts.length, next.posts.length])
    })

    it('the keys of a target always get it', async () => {
      for (const user of ['a', 'b', 'c', 'd']) expect(await engineOf('qa', { user })).toBe('next')
    })

    it('a request chooses its target only with the permission of its key', async () => {
      expect(await engineOf('boss', { firstlight: { target: 'v1' } })).toBe('old')
      expect(await engineOf('boss', { firstlight: { target: 'v2' } })).toBe('next')
      const refused = await ask('ada', { firstlight: { target: 'v2' } })
      expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('firstlight.target')])
      const unknown = await ask('boss', { firstlight: { target: 'v3' } })
      expect([unknown.status, unknown.text]).toEqual([400, expect.stringContaining('must be one of v1, v2')])
    })

    it('a key needs the name alone, and gets no other', async () => {
      expect((await ask('ada')).status).toBe(200)
      expect((await ask('ada', { model: 'v2' })).status).toBe(404)
      const headers = { authorization: 'Bearer secret-of-ada' }
      const listed = (await (await fetch(`${gateway.url}/v1/models`, { headers })).json()) as { data: { id: string }[] }
      expect(listed.data.map(({ id }) => id)).toEqual(['chat'])
    })

    it('a target may be an adapter of an engine, or a model of a provider', async () => {
      await using mixed = await openGateway({
        runtime,
        config: {
          clusters: [
            {
              id: 'c',
              pools: [
                { model: 'base', adapters: ['sql'], engines: [{ id: 'own', url: old.url }] },
                {
                  model: 'paid',
                  engines: [{ id: 'provider', url: next.url, kind: 'external', provider_model: 'their-model' }],
                },
              ],
            },
          ],
          weighted_models: [{ name: 'chat', targets: [{ model: 'sql' }, { model: 'paid' }] }],
        },
      })
      const modelsAt = (engine: FakeEngine) =>
        new Set(engine.posts.map(({ json }) => (json as { model: string }).model))
      await until(async () => {
        expect((await mixed.chat({ model: 'chat' })).status).toBe(200)
        return old.posts.length > 0 && next.posts.length > 0
      })
      expect([modelsAt(old), modelsAt(next)]).toEqual([new Set(['sql']), new Set(['their-model'])])
      expect(await (await mixed.get('/metrics')).text()).not.toContain('firstlight_refusals_total{')
    })

    it('a target whose requests fail gets no more by weight', async () => {
      next.routes = { 'POST *': { status: 500, body: { error: { message: 'broken' } } } }
      for (let sent = 0; sent < 4; sent++) expect((await ask('qa')).status).toBeGreaterThanOrEqual(500)
      await until(async () => (await targets())[1]!.stopped_since !== null)
      const { failed } = (await targets())[1]!
      expect(failed).toBe(4)
      const before = next.posts.length
      for (const user of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) expect(await engineOf('ada', { user })).toBe('old')
      expect(next.posts.length).toBe(before)
    })
  })
}
