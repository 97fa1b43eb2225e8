/**
 * Exports without a use. An export is used if production code, a tool, a benchmark or a script imports it, or if the
 * file is an entry of the package. An export for tests alone has `@testing` in its docstring; a type that only the
 * package's generated declarations name, through inference, has `@declared`.
 */
import { importedPath, isTest, lineAt, type SourceFile } from './source-files.ts'

/** Entries of the package, of the runtime or of a tool, which are imported by name from outside. */
const ENTRY =
  /^(src\/(index|worker|node)\.ts|src\/platform\/node\/embed\.ts|bin\/|scripts\/|packages\/bench\/|test\/|[^/]+\.config\.ts)/

const ALL = '*'

/** Names that are imported, by the path of the exporting file. */
function importedNames(files: readonly SourceFile[]): Map<string, Set<string>> {
  const used = new Map<string, Set<string>>()
  const use = (file: SourceFile, specifier: string, name: string): void => {
    const path = importedPath(file, specifier)
    if (path !== null) (used.get(path) ?? used.set(path, new Set()).get(path)!).add(name)
  }
  for (const file of files) {
    const { staticImports, staticExports, dynamicImports } = file.parsed.module
    for (const { moduleRequest, entries } of staticImports)
      for (const { importName } of entries)
        use(
          file,
          moduleRequest.value,
          importName.kind === 'Name' ? importName.name! : importName.kind === 'Default' ? 'default' : ALL,
        )
    for (const { entries } of staticExports)
      for (const { moduleRequest, importName } of entries)
        if (moduleRequest !== null) use(file, moduleRequest.value, importName.kind === 'Name' ? importName.name! : ALL)
    for (const { moduleRequest } of dynamicImports)
      use(file, file.text.slice(moduleRequest.start + 1, moduleRequest.end - 1), ALL)
    for (const [, specifier, name] of file.text.matchAll(/import\('([^']+)'\)\.(\w+)/g)) use(file, specifier!, name!)
  }
  return used
}

/** Whether the docstring above the export at this offset has a tag. */
function hasTag({ text, parsed }: SourceFile, offset: number, tag: '@testing' | '@declared'): boolean {
  const start = text.lastIndexOf('export', offset)
  const above = parsed.comments.findLast(({ end }) => end <= start)
  return above !== undefined && text.slice(above.end, start).trim() === '' && above.value.includes(tag)
}

const uses = (used: Map<string, Set<string>>, path: string, name: string): boolean =>
  used.get(path)?.has(name) === true || used.get(path)?.has(ALL) === true

export function unusedExports(files: readonly SourceFile[]): string[] {
  const byProduct = importedNames(files.filter((file) => !isTest(file)))
  const byTests = importedNames(files.filter(isTest))
  return files
    .filter(({ path }) => !ENTRY.test(path))
    .flatMap((file) =>
      file.parsed.module.staticExports
        .flatMap(({ entries }) => entries)
        .flatMap(({ exportName, start }) => {
          const name = exportName.kind === 'Name' ? exportName.name! : 'default'
          if (exportName.kind === 'None' || uses(byProduct, file.path, name)) return []
          if (hasTag(file, start, '@declared')) return []
          const where = `${file.path}:${lineAt(file, start)}: "${name}" is exported`
          if (!uses(byTests, file.path, name)) return [`${where}, but no other file imports it.`]
          return hasTag(file, start, '@testing') ? [] : [`${where} for tests alone. Add @testing to its docstring.`]
        }),
    )
}
