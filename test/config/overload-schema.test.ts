import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

function problemsOf(pool: object): string[] {
  const engines = [{ id: 'a', url: 'http://10.0.0.1:8000' }]
  try {
    parseConfig({ open: true, clusters: [{ id: 'c', pools: [{ model: 'm', engines, ...pool }] }] }, {}, options)
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(
        ({ path, value, rule }) => `${path.replace('clusters[0].pools[0].', '')} ${value}: ${rule}`,
      )
  }
  return []
}

const queue = { no_engine_wait_ms: 60_000 }

it('a configuration lets requests wait for engines, and engines sleep', () => {
  expect(problemsOf({ queue, wake: 'on_demand', sleep: { idle_s: 60 } })).toEqual([])
})

it.each<[string, object, string]>([
  ['too long a wait', { queue: { no_engine_wait_ms: 3_600_001 } }, 'queue.no_engine_wait_ms 3600001: must be at most'],
  ['a wake without a queue', { wake: 'on_demand' }, 'wake "on_demand": needs queue.no_engine_wait_ms'],
  ['another wake', { wake: 'always' }, 'wake "always": must be one of off, on_demand'],
  ['a sleep without a wake', { queue, sleep: { idle_s: 60 } }, 'needs wake: on_demand, or nothing'],
  ['no time until the sleep', { queue, wake: 'on_demand', sleep: {} }, 'sleep.idle_s null: is required'],
  ['a sleep at once', { queue, wake: 'on_demand', sleep: { idle_s: 0 } }, 'sleep.idle_s 0: must be at least 1'],
])('a configuration rejects %s with path, value and rule', (_, pool, problem) => {
  expect(problemsOf(pool)).toEqual([expect.stringContaining(problem)])
})
