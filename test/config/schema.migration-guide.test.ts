import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

type Schema = Readonly<Record<string, unknown>>

const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const page = file('docs/coming-from.md')
const schema = JSON.parse(file('docs/firstlight.schema.json')) as Schema

const all = (pattern: RegExp): readonly string[] => [...new Set([...page.matchAll(pattern)].map(([, found]) => found!))]

/** Whether the schema has the key, through lists and alternatives. */
function has(node: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return true
  if (typeof node !== 'object' || node === null) return false
  const { $ref, properties, items, anyOf, oneOf } = node as {
    readonly $ref?: string
    readonly properties?: Schema
    readonly items?: unknown
    readonly anyOf?: readonly unknown[]
    readonly oneOf?: readonly unknown[]
  }
  if ($ref !== undefined)
    return has(
      $ref
        .split('/')
        .slice(1)
        .reduce<unknown>((at, step) => (at as Schema)[step], schema),
      [key, ...rest],
    )
  if (properties !== undefined && Object.hasOwn(properties, key) && has(properties[key], rest)) return true
  return [items, ...(anyOf ?? []), ...(oneOf ?? [])].some((inner) => has(inner, [key, ...rest]))
}

const WHERE: Readonly<Record<string, string>> = { pool: 'clusters.pools', engine: 'clusters.pools.engines' }

describe('the migration guide', () => {
  const keys = all(
    /`((?:pool|engine|limits|log|metrics|traces|ttft|keys|cors|listen|clusters)(?:\.[a-z_]+)*)[`:]/g,
  ).filter((key) => !['pool.x', 'engine.x'].includes(key))

  it.each(keys)('every setting of the migration guide is a key of the configuration: %s', (key) => {
    const [first, ...rest] = key.split('.')
    expect(has(schema, [...(WHERE[first!] ?? first!).split('.'), ...rest])).toBe(true)
  })

  it('the migration guide lists more than 35 keys', () => {
    expect(keys.length).toBeGreaterThan(35)
  })

  it.each(all(/\b((?:firstlight|gen_ai)_[a-z_]+)\b/g))('every metric of the migration guide exists: %s', (name) => {
    expect(file('docs/metrics.md')).toContain(`\`${name}\``)
  })
})
