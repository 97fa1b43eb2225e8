/** What differs between two configurations, for the log of a reload. */
import type { Config } from '../config.ts'
import { toSnakeKey } from './fields.ts'
import { type Path, renderPath } from './path.ts'

/** They follow from other settings, or change with every document. */
const DERIVED: ReadonlySet<string> = new Set(['version', 'via', 'loopback'])

/** Longest list of a log line. */
const MAX_PATHS = 20

/**
 * Paths of all settings that differ, without their values, which may be secrets. A list that has become longer or
 * shorter is one path. From the 21st on they are a number: `and 7 more`.
 */
export function changedPaths(before: Config, after: Config): string[] {
  const paths: string[] = []
  collect([], before, after, paths)
  const named = paths.filter((path) => !DERIVED.has(path))
  const further = named.length - MAX_PATHS
  return further > 0 ? [...named.slice(0, MAX_PATHS), `and ${further} more`] : named
}

function collect(path: Path, before: unknown, after: unknown, paths: string[]): void {
  if (before === after) return
  const keys = commonKeys(before, after)
  if (keys === null) {
    if (JSON.stringify(before) !== JSON.stringify(after)) paths.push(renderPath(path))
    return
  }
  for (const key of keys)
    collect(
      [...path, typeof key === 'number' ? key : toSnakeKey(key)],
      (before as Record<PropertyKey, unknown>)[key],
      (after as Record<PropertyKey, unknown>)[key],
      paths,
    )
}

/** null: the two are compared as a whole. */
function commonKeys(before: unknown, after: unknown): readonly (string | number)[] | null {
  if (typeof before !== 'object' || typeof after !== 'object' || before === null || after === null) return null
  if (Array.isArray(before) && Array.isArray(after)) return before.length === after.length ? [...before.keys()] : null
  if (Array.isArray(before) || Array.isArray(after)) return null
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
}
