import { expect, it } from 'vitest'
import { engineQuery } from '../../src/api/engine-query.ts'

it.each([
  ['', ''],
  ['?', '?'],
  ['?beta=true', '?beta=true'],
  ['?api-version=1&x=%2F+&x=2&flag', '?api-version=1&x=%2F+&x=2&flag'],
  ['?model=other', ''],
  ['?a=1&model=other&model=third&b=2', '?a=1&b=2'],
  ['?%6dodel=other&Model=third&models=x&x=model', '?models=x&x=model'],
  ['?a=%zz&model', '?a=%zz'],
])('the query %j reaches engines as %j', (query, expected) => {
  expect(engineQuery(query)).toBe(expected)
})
