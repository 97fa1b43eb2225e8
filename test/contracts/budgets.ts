/** Budgets of keys and teams, on any runtime. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

interface BudgetRow {
  readonly account: string
  readonly unit: string
  readonly used: number
}

export function budgetsContract(runtime: Runtime): void {
  describe(`budgets on ${runtimeNames[runtime]}`, () => {
    let engine: FakeEngine
    let gateway: TestGateway

    beforeEach(async () => {
      engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
      gateway = await openGateway({
        runtime,
        config: {
          open: false,
          admin: { secret: ADMIN_KEY },
          teams: [{ name: 'search', budgets: [{ per: 'month', tokens: 1 }] }],
          keys: [
            { name: 'ada', secret: 'secret-of-ada', budgets: [{ per: 'day', tokens: 1 }] },
            { name: 'bob', secret: 'secret-of-bob', team: 'search' },
            { name: 'cy', secret: 'secret-of-cy', team: 'search' },
            { name: 'dan', secret: 'secret-of-dan', budgets: [{ per: 'day', tokens: 1, at_end: 'sheddable' }] },
            { name: 'eve', secret: 'secret-of-eve', budgets: [{ per: 'day', engine_s: 0.001, money: 1e6 }] },
            { name: 'fay', secret: 'secret-of-fay' },
          ],
          clusters: [
            {
              id: 'c',
              pools: [
                {
                  model: 'qwen',
                  cost: { price_per_engine_hour: 2 },
                  engines: [{ id: 'e', url: engine.url }],
                },
              ],
            },
          ],
        },
      })
    })
    afterEach(async () => {
      await gateway.close()
      await engine.close()
    })

    const ask = async (key: string): Promise<Response> =>
      gateway.chat({ model: 'qwen' }, { headers: { authorization: `Bearer secret-of-${key}` } })
    const statusOf = async (key: string): Promise<number> => {
      const response = await ask(key)
      await response.text()
      return response.status
    }
    const used = async (account: string, unit: string): Promise<number> => {
      const answer = await gateway.get('/v1/firstlight/usage')
      const { budgets } = (await answer.json()) as { budgets: readonly BudgetRow[] }
      return budgets.find((row) => row.account === account && row.unit === unit)!.used
    }
    /** The budget is charged at the end of a request, and other isolates read it after a second. */
    const spends = async (key: string, account: string, unit = 'tokens'): Promise<void> => {
      expect(await statusOf(key)).toBe(200)
      await until(async () => (await used(account, unit)) > 0)
    }

    it('a key that has spent its budget is refused until the next period, and other keys are served', async () => {
      await spends('ada', 'ada')
      await until(async () => (await statusOf('ada')) === 429)
      const refused = await ask('ada')
      const { error } = (await refused.json()) as { error: { code: string; type: string; message: string } }
      expect([error.code, error.type]).toEqual(['budget_spent', 'insufficient_quota'])
      expect(error.message).toMatch(
        /^This key has spent its budget of 1 tokens per day\. It starts again at .*T00:00:00/,
      )
      expect(refused.headers.get('x-should-retry')).toBe('false')
      expect(await statusOf('fay')).toBe(200)
      const metrics = await (await gateway.get('/metrics')).text()
      expect(metrics).toContain('firstlight_budget_warnings_total{account="ada"}')
      expect(metrics).toContain('firstlight_budget_refused_requests_total{account="ada"}')
    })

    it('all keys of a team spend its budget', async () => {
      await spends('bob', 'team:search')
      await until(async () => (await statusOf('cy')) === 429)
      const { error } = (await (await ask('cy')).json()) as { error: { message: string } }
      expect(error.message).toContain('The team search has spent its budget of 1 tokens per month.')
    })

    it('a budget that ends as sheddable refuses nothing while there is room', async () => {
      await spends('dan', 'dan')
      for (let sent = 0; sent < 3; sent++) expect(await statusOf('dan')).toBe(200)
    })

    it('a budget of engine seconds is spent by the costs of requests', async () => {
      await spends('eve', 'eve', 'engine_s')
      await until(async () => (await statusOf('eve')) === 429)
      expect(await used('eve', 'money')).toBeGreaterThan(0)
    })
  })
}
