import { expect, it } from 'vitest'
import { policyKinds } from '../../../src/core/routing/policies/policies.ts'

const plain = policyKinds.filter(({ options }) => Object.keys(options).length === 0)

it.each(plain.map((kind) => [kind.name, kind] as const))('%s rejects options', (_name, kind) => {
  expect(() => kind.create({ speed: 9 })).toThrow(/speed/)
  expect(kind.create({}).name).toBe(kind.name)
})
