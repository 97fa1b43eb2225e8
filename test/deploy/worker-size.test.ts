import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { documentSchema } from '../../src/config/schema.ts'
import { guideOf } from '../../src/engines/engine-guides.ts'
import * as z from 'zod'

const built = readFileSync(new URL('../../dist/worker/worker.js', import.meta.url), 'utf8')

/** Descriptions of the settings at the top of the document. */
const descriptions = (): readonly string[] => {
  const { properties = {} } = z.toJSONSchema(documentSchema, { io: 'input' })
  return Object.values(properties).flatMap((one) => (typeof one === 'object' && one.description) || [])
}

it('the built Worker has no descriptions of settings', () => {
  const texts = descriptions()
  expect(texts.length).toBeGreaterThan(20)
  // A build may write a character as an escape sequence.
  const plain = texts.filter((text) => /^[\w .,:;()-]+$/.test(text))
  expect(plain.length).toBeGreaterThan(5)
  expect(plain.filter((text) => built.includes(text))).toEqual([])
})

it('the built Worker has no advice of `firstlight doctor` about servers', () => {
  const quirks = guideOf({ kind: 'sglang' }).quirks.map(({ message }) => message)
  expect(quirks.length).toBeGreaterThan(0)
  expect(quirks.filter((text) => built.includes(text))).toEqual([])
})
