/**
 * Comments that mislead: a banner in the middle of a file says that the file holds two things, and a docstring that is
 * not above a declaration describes nothing.
 */
import { lineAt, type SourceFile } from './source-files.ts'

export function commentPlaces(file: SourceFile): string[] {
  const problems: string[] = []
  const { comments, program } = file.parsed
  const firstStatement = program.body[0]?.start ?? 0
  const directives = new Set(program.body.map(({ start }) => start))
  for (const { type, value, start, end } of comments) {
    if (type !== 'Block') continue
    const line = lineAt(file, start)
    const startsLine = start === 0 || file.text[start - 1] === '\n'
    if (!value.startsWith('*')) {
      if (startsLine)
        problems.push(`${file.path}:${line}: banner comment. Divide the file, or write a docstring (/**).`)
      continue
    }
    const rest = file.text.slice(end)
    const next = rest.trimStart()
    if (next.startsWith('/**')) {
      // The docstring of the file may stand above the one of its first declaration.
      if (start > firstStatement) problems.push(`${file.path}:${line}: two docstrings above one declaration.`)
    } else if (next === '' || /^[}\])]/.test(next)) problems.push(`${file.path}:${line}: docstring above nothing.`)
    else if (startsLine && start > firstStatement) {
      if (/^\s*\n\s*\n/.test(rest)) problems.push(`${file.path}:${line}: blank line below a docstring.`)
      if (next.startsWith('import ') && directives.has(end + rest.length - next.length))
        problems.push(`${file.path}:${line}: docstring above an import.`)
    }
  }
  return problems
}
