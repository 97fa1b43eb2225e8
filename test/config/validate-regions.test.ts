import { expect, it } from 'vitest'
import { parseIssuedKey } from '../../src/config/issued-key-body.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { summarise } from '../../src/config/summary.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

const cluster = (id: string, region: string | null, at: number) => ({
  id,
  ...(region === null ? {} : { region }),
  pools: [{ model: 'm', engines: [{ id: `e${at}`, url: `http://10.0.0.${at}:8000` }] }],
})

const parsed = (document: object) =>
  parseConfig(
    {
      keys: [{ name: 'ada', secret: 'secret-of-ada' }],
      clusters: [cluster('paris', 'eu-west', 1), cluster('oregon', 'us-east', 2), cluster('home', null, 3)],
      ...document,
    },
    {},
    options,
  )

function problemsOf(document: object): readonly string[] {
  try {
    parsed(document)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, value, rule }) => `${path}: ${value}: ${rule}`)
  }
  return []
}

const key = (more: object) => ({ keys: [{ name: 'ada', secret: 'secret-of-ada', ...more }] })

it.each([
  [
    key({ regions: ['eu-wset'] }),
    'keys[0].regions[0]: "eu-wset": is the `region` of no cluster; did you mean "eu-west"?',
  ],
  [key({ regions: ['home'] }), 'keys[0].regions[0]: "home": is the `region` of no cluster'],
  [key({ regions: ['eu-west', 'eu-west'] }), 'keys[0].regions[1]: "eu-west": duplicates keys[0].regions[0]'],
  [key({ regions: [] }), 'keys[0].regions: null: must have at least 1 entry'],
  [
    key({ regions: ['eu-west'], region_order: ['us-east'] }),
    'keys[0].region_order[0]: "us-east": is not among the `regions` of the key',
  ],
  [key({ region_order: ['asia'] }), 'keys[0].region_order[0]: "asia": is the `region` of no cluster'],
  [{ teams: [{ name: 't', regions: ['asia'] }] }, 'teams[0].regions[0]: "asia": is the `region` of no cluster'],
  [
    { region_preference: { order: ['us-east', 'asia'] } },
    'region_preference.order[1]: "asia": is the `region` of no cluster',
  ],
  [
    { region_preference: { order: ['us-east', 'us-east'] } },
    'region_preference.order[1]: "us-east": duplicates region_preference.order[0]',
  ],
  [{ region_preference: { order: [] } }, 'region_preference.order: null: must have at least 1 entry'],
  [
    { region_preference: { order: ['us-east'], when_full: 'wait' } },
    'region_preference.when_full: "wait": must be one of next, refuse',
  ],
  [
    { region_preference: { order: ['us-east'], when_full: 'refuse', spill_ttft_ms: 5 } },
    'region_preference.spill_ttft_ms: 5: contradicts `when_full: refuse`: leave one of them out',
  ],
])('regions are refused at start: %j', (document, problem) => {
  expect(problemsOf(document)).toEqual([problem])
})

it('regions of an issued key follow the same rules, and its body changes nothing', () => {
  const problem = parseIssuedKey({ name: 'late', regions: ['asia'] }, parsed({}), 0)
  expect(problem).toMatchObject({ path: 'regions[0]', value: '"asia"', rule: 'is the `region` of no cluster' })
  expect(parseIssuedKey({ name: 'late', regions: ['eu-west'] }, parsed({}), 0)).toMatchObject({ regions: ['eu-west'] })
})

it('regions of a key are in the summary', () => {
  expect(summarise(parsed(key({ regions: ['eu-west'] }))).callers).toBe('ada (all models; only in eu-west)')
})
