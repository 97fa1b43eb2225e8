import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { listFiles, readText } from '../../scripts/source-checks/source-files.ts'

const page = readText('docs/architecture.md')

/** Cells of the table below a heading, without its head. */
function rowsBelow(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!
  return section
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2)
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()))
}

const codeIn = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!)

interface Layer {
  readonly name: string
  /** Files, or folders that end in `/`. */
  readonly paths: readonly string[]
  readonly imports: readonly string[]
}

const layers: readonly Layer[] = rowsBelow('Layers').map(([name, paths, imports]) => ({
  name: name!,
  paths: codeIn(paths!),
  imports: imports!.split(', ').filter((layer) => layer !== ''),
}))

/** The row whose path is the longest that fits. */
function layerOf(file: string): string | null {
  const fitting = layers.flatMap(({ name, paths }) =>
    paths
      .filter((path) => (path.endsWith('/') ? file.startsWith(path) : file === path))
      .map((path) => ({ name, path })),
  )
  return fitting.sort((one, other) => other.path.length - one.path.length)[0]?.name ?? null
}

/** Layers that the files of each layer import, types included. */
function importsByLayer(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>(layers.map(({ name }) => [name, new Set()]))
  for (const file of listFiles('{src,durable}/**/*.{ts,tsx}')) {
    const from = layerOf(file)
    if (from === null) continue
    for (const [, specifier] of readText(file).matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)) {
      const to = layerOf(join(dirname(file), specifier!))
      if (to !== null && to !== from) found.get(from)!.add(to)
    }
  }
  return found
}

describe('docs/architecture.md', () => {
  it('docs/architecture.md lists for each layer exactly the layers that its files import', () => {
    const found = importsByLayer()
    for (const { name, imports } of layers)
      expect([name, [...found.get(name)!].sort()]).toEqual([name, [...imports].sort()])
  })

  it('docs/architecture.md has no arrow in the picture without an import', () => {
    const arrows = [...page.matchAll(/^ {2}(\w+) --> (\w+)$/gm)].map(([, from, to]) => [from!, to!] as const)
    expect(arrows.length).toBeGreaterThan(10)
    const missing = arrows.filter(
      ([from, to]) => layers.find(({ name }) => name === from)?.imports.includes(to) !== true,
    )
    expect(missing).toEqual([])
  })

  it('docs/architecture.md names only files and folders that exist', () => {
    const paths = codeIn(page).filter((code) => /^(src|durable|packages|test)\//.test(code))
    expect(paths.length).toBeGreaterThan(40)
    expect(paths.filter((path) => !existsSync(path))).toEqual([])
  })

  it('docs/architecture.md names each representation in its file', () => {
    const rows = rowsBelow('Representations of a request')
    expect(rows.length).toBeGreaterThan(10)
    for (const [name, file] of rows) {
      const declaration = new RegExp(`export (interface|type|class) ${codeIn(name!)[0]}\\b`)
      expect(readText(codeIn(file!)[0]!)).toMatch(declaration)
    }
  })

  it('docs/architecture.md is linked from the README, AGENTS.md and the index of the docs', () => {
    for (const linking of ['README.md', 'AGENTS.md', 'docs/README.md'])
      expect(readText(linking)).toContain('architecture.md')
  })

  it('docs/architecture.md has a row for each folder of the source', () => {
    const folders = listFiles('src/*/').map((path) => path.replace(/\/?$/, '/'))
    expect(folders.filter((folder) => layers.every(({ paths }) => !paths.includes(folder)))).toEqual([])
  })
})
