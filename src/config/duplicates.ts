/** Names that two parts of the document have. */
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'

export type NamedPath = readonly [name: string, path: Path]

export function checkDuplicates(found: Finding[], names: readonly NamedPath[]): void {
  const seen = new Map<string, Path>()
  for (const [name, path] of names) {
    const first = seen.get(name)
    if (first === undefined) seen.set(name, path)
    else found.push({ path, rule: `is taken already by ${renderPath(first)}` })
  }
}
