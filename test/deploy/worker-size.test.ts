import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { guideOf } from '../../src/engines/engine-guides.ts'

const built = readFileSync(new URL('../../dist/worker/worker.js', import.meta.url), 'utf8')

it('the built Worker has no advice of `firstlight doctor` about servers', () => {
  const quirks = guideOf({ name: 'sglang' }).quirks.map(({ message }) => message)
  expect(quirks.length).toBeGreaterThan(0)
  expect(quirks.filter((text) => built.includes(text))).toEqual([])
})
