import { expect, it } from 'vitest'
import { CostUsage, moneyOf, sumCosts } from '../../../src/core/cost/cost-usage.ts'

const cost = { engineS: 3, savedS: 1 }

it('costs are added for the key, its team and the model', () => {
  const usage = new CostUsage()
  usage.add({ key: 'ada', team: 'search', model: 'qwen' }, cost, 2)
  usage.add({ key: 'bob', team: null, model: 'qwen' }, cost, 2)
  const one = { attempts: 1, ...cost, money: 2 }
  const both = { attempts: 2, engineS: 6, savedS: 2, money: 4 }
  expect(usage.totals()).toEqual({ key: { ada: one, bob: one }, team: { search: one }, model: { qwen: both } })
  expect(sumCosts(usage.totals(), usage.totals()).key['ada']).toEqual({ attempts: 2, engineS: 6, savedS: 2, money: 4 })
})

it('costs beyond a thousand names are added to the name other', () => {
  const usage = new CostUsage()
  for (let at = 0; at < 1_500; at++) usage.add({ key: `k${at}`, team: null, model: 'qwen' }, cost, 0)
  expect(Object.keys(usage.totals().key)).toHaveLength(1_001)
  expect(usage.totals().key['other']!.attempts).toBe(500)
})

it('an engine hour costs its price, and nothing without one', () => {
  expect(moneyOf({ engineS: 1_800 }, 4)).toBe(2)
  expect(moneyOf({ engineS: 1_800 }, null)).toBe(0)
})
