/**
 * Files whose definitions fall into groups that do not refer to each other, for a reader to judge: perhaps the file
 * holds two concepts. one-concept.json names the concept of each file that has been judged to hold one.
 */
import { Visitor } from 'vite'
import { isProduct, lineAt, readText, type SourceFile } from './source-files.ts'

/** Smaller groups are helpers. */
const MIN_LINES = 30

const judged = JSON.parse(readText('scripts/source-checks/one-concept.json')) as Record<string, string>

interface Definition {
  readonly names: readonly string[]
  readonly lines: number
  readonly uses: ReadonlySet<string>
}

function definitionsOf(file: SourceFile): Definition[] {
  return file.parsed.program.body.flatMap((statement) => {
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement
    if (declaration === null || declaration.type === 'ImportDeclaration') return []
    const names =
      declaration.type === 'VariableDeclaration'
        ? declaration.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []))
        : 'id' in declaration && declaration.id?.type === 'Identifier'
          ? [declaration.id.name]
          : []
    const uses = new Set<string>()
    new Visitor({
      Identifier: ({ name }) => void uses.add(name),
      JSXIdentifier: ({ name }) => void uses.add(name),
    }).visit({
      ...file.parsed.program,
      body: [statement],
    })
    return [{ names, uses, lines: lineAt(file, statement.end) - lineAt(file, statement.start) + 1 }]
  })
}

/** Sizes in lines of the groups that do not refer to each other. */
function groupSizes(definitions: readonly Definition[]): number[] {
  const groupOf = definitions.map((_, at) => at)
  const rootOf = (at: number): number => (groupOf[at] === at ? at : rootOf(groupOf[at]!))
  definitions.forEach(({ uses }, at) =>
    definitions.forEach(({ names }, other) => {
      if (names.some((name) => uses.has(name))) groupOf[rootOf(at)] = rootOf(other)
    }),
  )
  const sizes = new Map<number, number>()
  definitions.forEach(({ lines }, at) => sizes.set(rootOf(at), (sizes.get(rootOf(at)) ?? 0) + lines))
  return [...sizes.values()].filter((lines) => lines >= MIN_LINES)
}

/** Lines for a reader. They do not fail the check. */
export const unconnectedDefinitions = (files: readonly SourceFile[]): string[] =>
  files
    .filter((file) => isProduct(file) && judged[file.path] === undefined)
    .flatMap((file) => {
      const sizes = groupSizes(definitionsOf(file))
      return sizes.length > 1 ? [`${file.path}: ${sizes.length} groups of ${sizes.join(', ')} lines`] : []
    })

/** Entries of one-concept.json without a file. */
export const staleJudgements = (files: readonly SourceFile[]): string[] =>
  Object.keys(judged)
    .filter((path) => !files.some((file) => file.path === path))
    .map((path) => `scripts/source-checks/one-concept.json: "${path}" does not exist.`)
