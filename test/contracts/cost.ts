/** Engine seconds per key, team and model, on any runtime. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

interface CostRow {
  readonly attempts?: number
  readonly engine_s?: number
  readonly money?: number
}

interface Usage {
  readonly keys: readonly (CostRow & { readonly key: string })[]
  readonly teams?: readonly (CostRow & { readonly team: string })[]
  readonly models?: readonly (CostRow & { readonly model: string })[]
}

export function costContract(runtime: Runtime): void {
  describe(`costs on ${runtimeNames[runtime]}`, () => {
    let engine: FakeEngine
    let gateway: TestGateway | null = null

    beforeEach(async () => {
      engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
    })
    afterEach(async () => {
      await gateway?.close()
      gateway = null
      await engine.close()
    })

    const open = async (pool: object): Promise<TestGateway> => {
      gateway = await openGateway({
        runtime,
        config: {
          open: false,
          admin: { secret: ADMIN_KEY },
          teams: [{ name: 'search' }],
          keys: [
            { name: 'ada', secret: 'secret-of-ada', team: 'search' },
            { name: 'bob', secret: 'secret-of-bob' },
          ],
          clusters: [{ id: 'c', pools: [{ model: 'qwen', ...pool, engines: [{ id: 'e', url: engine.url }] }] }],
        },
      })
      return gateway
    }
    const ask = async (key: string): Promise<number> => {
      const headers = { authorization: `Bearer secret-of-${key}` }
      const response = await gateway!.chat({ model: 'qwen', stream: true }, { headers })
      await response.text()
      return response.status
    }
    const usage = async (): Promise<Usage> => (await gateway!.get('/v1/firstlight/usage')).json() as Promise<Usage>

    it('engine seconds and money are counted for the key, its team and the model', async () => {
      await open({ cost: { price_per_engine_hour: 3_600 } })
      for (const key of ['ada', 'ada', 'bob']) expect(await ask(key)).toBe(200)
      await until(async () => (await usage()).models?.[0]?.attempts === 3)
      const { keys, teams, models } = await usage()
      expect(keys.map(({ key, attempts }) => [key, attempts])).toEqual([
        ['ada', 2],
        ['bob', 1],
      ])
      expect(teams).toEqual([expect.objectContaining({ team: 'search', attempts: 2 })])
      expect(teams![0]!.engine_s).toBe(keys[0]!.engine_s)
      expect(models![0]!.engine_s).toBeCloseTo(keys[0]!.engine_s! + keys[1]!.engine_s!, 6)
      // 3,600 per hour is 1 per second.
      for (const row of [...keys, ...models!]) expect(row.money).toBeCloseTo(row.engine_s!, 6)
      const metrics = await (await gateway!.get('/metrics')).text()
      for (const label of ['key="ada"', 'key="bob"'])
        expect(metrics).toContain(`firstlight_key_engine_seconds_total{${label}}`)
      expect(metrics).toContain('firstlight_team_engine_seconds_total{team="search"}')
      expect(metrics).toContain('firstlight_model_cost_total{model="qwen"}')
      if (runtime !== 'node') return
      const lines = gateway!.logged('request_cost')
      expect(lines).toMatchObject([
        { tenant: 'ada', team: 'search', model: 'qwen' },
        { tenant: 'ada', team: 'search', model: 'qwen' },
        { tenant: 'bob', model: 'qwen' },
      ])
      expect(lines.map((line) => line['money'])).toEqual(lines.map((line) => line['engine_s']))
    })

    it('costs are absent where no pool counts them', async () => {
      await open({})
      expect(await ask('ada')).toBe(200)
      await until(async () => (await usage()).keys.length === 1)
      const { keys, teams, models } = await usage()
      expect([keys[0]!.engine_s, teams, models]).toEqual([undefined, undefined, undefined])
      expect(await (await gateway!.get('/metrics')).text()).not.toContain('engine_seconds')
    })
  })
}
