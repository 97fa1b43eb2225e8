import { expect, it } from 'vitest'
import { parseIssuedKey } from '../../src/config/issued-key-body.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

function parsed(budget: object, pool: object = {}, place: 'keys' | 'teams' = 'keys') {
  const pools = [{ model: 'm', ...pool, engines: [{ id: 'a', url: 'http://10.0.0.1:8000' }] }]
  const owner = place === 'keys' ? { name: 'ada', secret: 'secret-of-ada' } : { name: 'search' }
  const keys = [{ name: 'bob', secret: 'secret-of-bob' }]
  return parseConfig({ keys, clusters: [{ id: 'c', pools }], [place]: [{ ...owner, budgets: [budget] }] }, {}, options)
}

function problemsOf(...given: Parameters<typeof parsed>): readonly string[] {
  try {
    parsed(...given)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, value, rule }) => `${path} ${value}: ${rule}`)
  }
  return []
}

const COUNTED = { cost: {} }

it.each([
  [{ tokens: 1 }, {}, 'keys[0].budgets[0].per null', 'must be one of day, month'],
  [{ per: 'week', tokens: 1 }, {}, 'keys[0].budgets[0].per "week"', 'must be one of day, month'],
  [{ per: 'day', tokens: 0 }, {}, 'keys[0].budgets[0].tokens 0', 'must be at least 1'],
  [{ per: 'day' }, {}, 'keys[0].budgets[0]', 'limits nothing: set `tokens`, `engine_s` or `money`'],
  [{ per: 'day', engine_s: 5 }, {}, 'keys[0].budgets[0].engine_s 5', 'is counted by no pool: set `cost` of a pool'],
  [{ per: 'day', money: 5 }, COUNTED, 'keys[0].budgets[0].money 5', 'set `cost.price_per_engine_hour` of a pool'],
] as const)('a budget is refused at start: %j', (budget, pool, place, rule) => {
  const [problem, ...others] = problemsOf(budget, pool)
  expect(others).toEqual([])
  expect(problem).toContain(place)
  expect(problem).toContain(rule)
})

it('a budget of a team is refused with its path', () => {
  expect(problemsOf({ per: 'day' }, {}, 'teams')[0]).toContain('teams[0].budgets[0]')
})

it('a budget is parsed with its defaults', () => {
  const { keys } = parsed({ per: 'day', engine_s: 5, tokens: 7 }, COUNTED)
  expect(keys![0]!.budgets).toEqual([{ per: 'day', tokens: 7, engineS: 5, money: null, atEnd: 'refuse' }])
})

it('a budget of an issued key follows the same rules', () => {
  const config = parsed({ per: 'day', tokens: 1 })
  expect(parseIssuedKey({ name: 'x', budgets: [{ per: 'day', money: 1 }] }, config, 0)).toMatchObject({
    path: 'budgets[0].money',
  })
  expect(parseIssuedKey({ name: 'x', budgets: [{ tokens: 1 }] }, config, 0)).toMatchObject({ path: 'budgets[0].per' })
  expect(parseIssuedKey({ name: 'x', budgets: [{ per: 'month', tokens: 9 }] }, config, 0)).toMatchObject({
    budgets: [{ per: 'month', tokens: 9 }],
  })
})
