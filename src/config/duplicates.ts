/** Names that two parts of the document have. */
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'

export type NamedPath = readonly [name: string, path: Path]

export function checkDuplicates(findings: Finding[], names: readonly NamedPath[]): void {
  const firstPaths = new Map<string, Path>()
  for (const [name, path] of names) {
    const first = firstPaths.get(name)
    if (first === undefined) firstPaths.set(name, path)
    else findings.push({ path, rule: `duplicates ${renderPath(first)}` })
  }
}
