/** YAML documents, read without a schema. */
import { loadAll } from 'js-yaml'
import { isJsonObject } from '../../../src/core/json.ts'

export type Tree = Record<string, unknown>

/** Parses YAML documents that are mappings. A text that is no YAML mapping, such as a script, has none. */
export function documentsOf(text: string): Tree[] {
  try {
    return loadAll(text).filter((one): one is Tree => isJsonObject(one))
  } catch {
    return []
  }
}

export const tree = (value: unknown): Tree => (isJsonObject(value) ? (value as Tree) : {})

export const items = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

export const text = (value: unknown): string | null =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null
