import { hashText } from '../block-keys.ts'

/** Generates a value that satisfies the common parts of a JSON schema, deterministic by seed. */
export function sampleOf(schema: unknown, seed: number, depth = 0): unknown {
  if (typeof schema !== 'object' || schema === null || depth > 8) return null
  const node = schema as Readonly<Record<string, unknown>>
  if ('const' in node) return node['const']
  if (Array.isArray(node['enum'])) return node['enum'][seed % node['enum'].length]
  const options = node['anyOf'] ?? node['oneOf']
  if (Array.isArray(options)) return sampleOf(options[0], seed, depth + 1)
  const type = Array.isArray(node['type']) ? node['type'][0] : node['type']
  if (type === 'object' || (type === undefined && 'properties' in node)) {
    const properties = Object.entries((node['properties'] ?? {}) as Record<string, unknown>)
    return Object.fromEntries(properties.map(([key, value]) => [key, sampleOf(value, hashText(key, seed), depth + 1)]))
  }
  if (type === 'array') return [sampleOf(node['items'], seed, depth + 1)]
  if (type === 'integer' || type === 'number') return Number(node['minimum'] ?? 0) + (seed % 10)
  if (type === 'boolean') return seed % 2 === 0
  if (type === 'string') return ['paris', 'oslo', 'rome', 'lima'][seed % 4]
  return null
}
