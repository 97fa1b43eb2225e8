import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

const parsed = (...weighted_models: object[]) => {
  const pools = ['a', 'b'].map((model, at) => ({
    model,
    aliases: model === 'b' ? ['also-b'] : [],
    engines: [{ id: model, url: `http://10.0.0.${at + 1}:8000` }],
  }))
  const keys = [{ name: 'qa', secret: 'secret-of-qa' }]
  return parseConfig({ keys, clusters: [{ id: 'k', pools }], weighted_models }, {}, options)
}

function problemsOf(...models: object[]): readonly string[] {
  try {
    parsed(...models)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, value, rule }) => `${path} ${value}: ${rule}`)
  }
  return []
}

const chat = (...targets: object[]) => ({ name: 'chat', targets })
const at = (rest: string): string => `weighted_models[0].${rest}`

it.each<[readonly object[], string]>([
  [[chat({ model: 'a', weight: 0 }, { model: 'b', weight: 0 })], 'have no weight in all'],
  [[chat({ model: 'a', weight: -1 }, { model: 'b' })], `${at('targets[0].weight')} -1: must be at least 0`],
  [[chat({ model: 'a' }, { model: 'c' })], `${at('targets[1].model')} "c": is served by no pool`],
  [[chat({ model: 'a' }, { model: 'a' })], `${at('targets[1].model')} "a": duplicates`],
  [
    [chat({ model: 'a', keys: ['qb'] })],
    `${at('targets[0].keys[0]')} "qb": is not the name of a key; did you mean "qa"`,
  ],
  [
    [chat({ model: 'a', stop: { failed_share: 0 } })],
    `${at('targets[0].stop.failed_share')} 0: must be at least 0.001`,
  ],
  [[chat()], at('targets')],
  [[{ name: 'also-b', targets: [{ model: 'a' }] }], `${at('name')} "also-b": duplicates clusters[0].pools[1]`],
  [[{ name: 'chat-*', targets: [{ model: 'a' }] }], `${at('name')} "chat-*": must not be a pattern`],
  [[chat({ model: 'a' }), chat({ model: 'b' })], 'weighted_models[1].name "chat": duplicates'],
])('a weighted model is refused at start: %j', (models, problem) => {
  const [first, ...others] = problemsOf(...models)
  expect(others).toEqual([])
  expect(first).toContain(problem)
})

it('a weighted model may have a target for testers alone, and targets by their aliases', () => {
  const { weightedModels } = parsed(chat({ model: 'a' }, { model: 'also-b', weight: 0, keys: ['qa'], stop: {} }))
  expect(weightedModels[0]!.targets).toEqual([
    { model: 'a', weight: 1, keys: [], stop: null },
    { model: 'also-b', weight: 0, keys: ['qa'], stop: { failedShare: 0.1, minRequests: 20 } },
  ])
})
