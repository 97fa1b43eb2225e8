/** Checks that each mutation can be applied to the working tree and that its tests exist. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { trialsOf, type Mutation } from './mutation.ts'

export const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Matches `find` however the formatter wraps it: any white space between words, any or none beside punctuation. */
export function patternOf(find: string): RegExp {
  const pieces = find.trim().match(/\w+|\s+|[^\w\s]/g) ?? []
  let pattern = ''
  for (const [at, piece] of pieces.entries()) {
    if (/\s/.test(piece)) continue
    const isSpaced = at > 0 && /\s/.test(pieces[at - 1]!)
    const isWord = /\w/.test(piece)
    const previous = at === 0 ? '' : pieces[isSpaced ? at - 2 : at - 1]!
    pattern += at === 0 ? '' : isSpaced && isWord && /\w/.test(previous) ? '\\s+' : '\\s*'
    pattern += piece.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  }
  return new RegExp(pattern, 'g')
}

/** Why the mutation cannot be applied to `source`; null if it can. `source`: null if the file does not exist. */
export function mismatchOf(
  { find, replace }: Pick<Mutation, 'find' | 'replace'>,
  source: string | null,
): string | null {
  if (source === null) return 'the file does not exist'
  const found = source.match(patternOf(find))?.length ?? 0
  if (found === 1) return find === replace ? 'the replacement equals the text' : null
  return `the text must occur once, but occurs ${found} times: ${JSON.stringify(find)}`
}

/**
 * Mutations that cannot be applied, share a name or name no test file, one message each.
 * Without this check an outdated mutation would test nothing, and the share of caught ones would not show it.
 */
export function catalogueProblems(mutations: readonly Mutation[]): string[] {
  const tests = globSync('test/**/*.test.ts', { cwd: root })
  const names = new Set<string>()
  return mutations.flatMap((mutation) => {
    const { name, file } = mutation
    const isKnown = names.has(name)
    names.add(name)
    const mismatch = mismatchOf(mutation, sourceText(file))
    const missing = trialsOf(mutation)
      .flatMap(({ files }) => files)
      .filter((part) => !tests.some((path) => path.includes(part)))
    return [
      ...(isKnown ? [`${name}: another mutation has this name`] : []),
      ...(mismatch === null ? [] : [`${name}: ${file}: ${mismatch}`]),
      ...missing.map((part) => `${name}: no test file has "${part}" in its path`),
    ]
  })
}

function sourceText(file: string): string | null {
  return existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : null
}
