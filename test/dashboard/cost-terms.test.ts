import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { costTermText } from '../../src/dashboard/cost-terms.ts'

it('the dashboard describes each cost term of every policy', () => {
  const folder = new URL('../../src/core/routing/policies/', import.meta.url)
  const terms = readdirSync(folder).flatMap((name) => {
    const text = readFileSync(new URL(name, folder), 'utf8')
    return [...text.matchAll(/new CostTable\(\[([^\]]+)\]/g)].flatMap(([, list]) =>
      [...list!.matchAll(/'(\w+)'/g)].map(([, term]) => term!),
    )
  })
  expect(terms).toContain('prefill_s')
  expect(terms.filter((term) => costTermText(term) === undefined)).toEqual([])
})
