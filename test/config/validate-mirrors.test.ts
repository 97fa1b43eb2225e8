import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

/** Mirrors of the pools a, b and c, of which b has an adapter, and of a weighted model. */
interface Mirrors {
  readonly a?: object
  readonly b?: object
  readonly c?: object
  readonly chat?: object
}

function parsed({ chat, ...mirrors }: Mirrors) {
  const pools = (['a', 'b', 'c'] as const).map((model, at) => ({
    model,
    ...(model === 'b' ? { adapters: ['b-lora'] } : {}),
    ...(mirrors[model] === undefined ? {} : { mirror: mirrors[model] }),
    engines: [{ id: model, url: `http://10.0.0.${at + 1}:8000` }],
  }))
  const weighted = { name: 'chat', targets: [{ model: 'a' }, { model: 'b', weight: 0 }] }
  const weighted_models = [{ ...weighted, ...(chat === undefined ? {} : { mirror: chat }) }]
  return parseConfig({ open: true, clusters: [{ id: 'k', pools }], weighted_models }, {}, options)
}

function problemsOf(mirrors: Mirrors): readonly string[] {
  try {
    parsed(mirrors)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, value, rule }) => `${path} ${value}: ${rule}`)
  }
  return []
}

const to = (model: unknown, share: unknown = 0.1): object => ({ to: model, share })
const at = (index: number): string => `clusters[0].pools[${index}].mirror`

it.each<[Mirrors, string]>([
  [{ a: to('d') }, `${at(0)}.to "d": is served by no pool`],
  [{ a: to('a') }, `${at(0)}.to "a": is a name of this pool itself, a: name another pool`],
  [{ b: to('b-lora') }, `${at(1)}.to "b-lora": is a name of this pool itself, b: name another pool`],
  [{ a: to('chat') }, `${at(0)}.to "chat": is a weighted model: name a model of a pool`],
  [{ a: to('b', 1.5) }, `${at(0)}.share 1.5: must be at most 1`],
  [{ a: to('b', -0.1) }, `${at(0)}.share -0.1: must be at least 0`],
  [{ a: { to: 'b' } }, `${at(0)}.share`],
  [{ a: to('b-lora'), b: to('a') }, `${at(0)}.to "b-lora": closes a loop of mirrors: a → b → a`],
  [{ a: to('b'), b: to('c'), c: to('a') }, `${at(0)}.to "b": closes a loop of mirrors: a → b → c → a`],
  [{ chat: to('chat') }, 'weighted_models[0].mirror.to "chat": is this weighted model itself: name a model of a pool'],
  [{ chat: to('d') }, 'weighted_models[0].mirror.to "d": is served by no pool'],
  [{ chat: to('b', 2) }, 'weighted_models[0].mirror.share 2: must be at most 1'],
])('a mirror is refused at start: %j', (mirrors, problem) => {
  const [first, ...others] = problemsOf(mirrors)
  expect(others).toEqual([])
  expect(first).toContain(problem)
})

it('pools and weighted models may repeat requests at other pools, also in a row', () => {
  const { clusters, weightedModels } = parsed({ a: to('b-lora', 1), b: to('c', 0), chat: to('b', 0.5) })
  expect(clusters[0]!.pools.map(({ mirror }) => mirror)).toEqual([
    { to: 'b-lora', share: 1 },
    { to: 'c', share: 0 },
    null,
  ])
  expect(weightedModels[0]!.mirror).toEqual({ to: 'b', share: 0.5 })
})
