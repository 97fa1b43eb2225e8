import { expect, it } from 'vitest'
import { policiesWithoutOptions } from '../../../../src/core/routing/policies/without-options.ts'

it.each(policiesWithoutOptions.map((kind) => [kind.name, kind] as const))('%s rejects options', (_name, kind) => {
  expect(() => kind.create({ speed: 9 })).toThrow(/speed/)
  expect(kind.create({}).name).toBe(kind.name)
})
