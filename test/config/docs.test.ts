import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../src/config/parse.ts'
import { configJsonSchema, configMarkdown } from '../../scripts/config-docs.ts'

const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

describe('the generated pages are those of this schema (else: npm run docs)', () => {
  it('docs/config.md', () => {
    expect(file('docs/config.md')).toBe(configMarkdown())
  })

  it('docs/firstlight.schema.json', () => {
    expect(file('docs/firstlight.schema.json')).toBe(configJsonSchema())
  })
})

describe('every example is valid', () => {
  const anyEnv = new Proxy({}, { get: (_, name) => `value-of-${String(name)}` })
  const examples = readdirSync(new URL('../../examples', import.meta.url)).filter((name) => name.endsWith('.yaml'))

  it.each(examples)('%s', (name) => {
    expect(parseConfigText(file(`examples/${name}`), anyEnv, { defaultVersion: 1, defaultObserveShare: 1, listens: true }).clusters).not.toEqual([])
  })
})
