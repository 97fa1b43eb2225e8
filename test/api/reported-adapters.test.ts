import { expect, it } from 'vitest'
import { ANYONE } from '../../src/api/auth/caller.ts'
import { ModelRegistry } from '../../src/api/model-registry.ts'
import { ReportedAdapters } from '../../src/api/reported-adapters.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { PoolPort } from '../../src/ports/pool.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

const pool = (model: string, more: object = {}) => ({
  model,
  adapters: 'auto',
  engines: [{ id: `${model}-engine`, url: `http://10.0.0.1/${model}` }],
  ...more,
})

/** A registry whose pools report `lists`, by model. undefined: no list is known; null: the state is unreachable. */
function site(
  pools: readonly object[],
  lists: Record<string, readonly string[] | undefined | null>,
  more: object = {},
) {
  const { clusters, weightedModels } = parseConfig({ open: true, clusters: [{ id: 'c', pools }], ...more }, {}, options)
  const models = new ModelRegistry({ clusters, weightedModels })
  const state = { now: 0, reads: 0, refused: [] as unknown[] }
  const log = { debug: () => {}, info: () => {}, error: () => {} }
  const ports = {
    now: () => state.now,
    log: {
      ...log,
      warn: (event: string, fields: object = {}) => {
        if (event === 'adapter_not_served') state.refused.push((fields as { adapter: string }).adapter)
      },
    },
    pool: (_cluster: string, model: string) =>
      ({
        digest: async () => {
          state.reads += 1
          const list = lists[model]
          if (list === null) throw new Error('out of reach')
          return { engines: [{ id: 'one', ...(list === undefined ? {} : { loadedAdapters: list }) }, { id: 'other' }] }
        },
      }) as unknown as PoolPort,
  }
  const adapters = ReportedAdapters.of({ ports, models })
  /** Adapters and their base models, after the next read. */
  const offered = async () => {
    state.now += 2_000
    await adapters!.refresh()
    return models.offers(ANYONE).flatMap(({ name, kind, base }) => (kind === 'adapter' ? [`${name} of ${base}`] : []))
  }
  return { adapters, models, offered, state }
}

it('reported adapters are those of the last list, and those before while the pool has none or is unreachable', async () => {
  const lists: Record<string, readonly string[] | undefined | null> = { m: ['sql'] }
  const { offered } = site([pool('m')], lists)
  expect(await offered()).toEqual(['sql of m'])
  for (const unknown of [undefined, null]) {
    lists['m'] = unknown
    expect(await offered()).toEqual(['sql of m'])
  }
  lists['m'] = ['poet']
  expect(await offered()).toEqual(['poet of m'])
  lists['m'] = []
  expect(await offered()).toEqual([])
})

it('reported adapters are read for unknown names only, and not again before they are old', async () => {
  const { adapters, models, state } = site([pool('m', { aliases: ['chat', 'gpt-*'] })], { m: ['sql'] })
  for (const name of ['m', 'chat', 'gpt-4']) await adapters!.refreshFor(name)
  expect(state.reads).toBe(0)
  for (const name of ['sql', 'evil', 'evil-2']) await adapters!.refreshFor(name)
  expect(state.reads).toBe(1)
  expect(models.offer('sql', ANYONE)).toMatchObject({ kind: 'adapter', base: 'm' })
  expect(() => models.offer('evil', ANYONE)).toThrow('does not exist')
  state.now += 2_000
  await adapters!.refreshFor('evil')
  expect(state.reads).toBe(2)
})

it('reported adapters never replace names of the configuration, or of a pool before, and each is logged once', async () => {
  const weighted = { weighted_models: [{ name: 'mix', targets: [{ model: 'm', weight: 1 }] }] }
  const pools = [pool('m', { aliases: ['chat', 'gpt-*'] }), pool('n'), pool('o', { adapters: ['sql'] })]
  const own = ['m', 'chat', 'gpt-4', 'sql', 'mix', 'n']
  const { models, offered, state } = site(pools, { m: [...own, 'poet'], n: ['poet', 'code'] }, weighted)
  const expected = ['sql of o', 'poet of m', 'code of n']
  expect(await offered()).toEqual(expected)
  expect(await offered()).toEqual(expected)
  expect(state.refused).toEqual([...own, 'poet'])
  expect(models.offer('chat', ANYONE)).toMatchObject({ kind: 'alias', base: 'm' })
  expect(models.offer('gpt-4', ANYONE)).toMatchObject({ kind: 'alias', base: 'm' })
  expect(models.offer('sql', ANYONE)).toMatchObject({ base: 'o' })
})

it('reported adapters have at most 256 names per pool, all of which are model names', async () => {
  const names = Array.from({ length: 300 }, (_, at) => `a${at}`)
  const { offered, state } = site([pool('m')], { m: ['', 'with space', 'a*', 'x'.repeat(256), ...names] })
  expect(await offered()).toEqual(names.slice(0, 256).map((name) => `${name} of m`))
  expect(state.refused).toEqual(names.slice(256))
})

it('reported adapters are not read by a gateway whose pools list their adapters', () => {
  expect(site([pool('m', { adapters: ['sql'] })], {}).adapters).toBeNull()
})
