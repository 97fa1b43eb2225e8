/**
 * Words that the glossary of AGENTS.md has replaced. retired-words.json maps each to its term: those below `everywhere`
 * may stand in no name, string or comment, those below `names` in no identifier or file name, because the word has
 * another, ordinary meaning in prose. `allowed` lists names that keep a word, with the reason.
 */
import { matchesGlob } from 'node:path'
import { Visitor } from 'vite'
import { lineAt, readText, type SourceFile } from './source-files.ts'

type Words = ReadonlyMap<string, string>

interface Exception {
  readonly word: string
  /** Identifiers. Absent: all. */
  readonly names?: readonly string[]
  /** Patterns of paths. Absent: all. */
  readonly files?: readonly string[]
  readonly because: string
}

const list = JSON.parse(readText('scripts/source-checks/retired-words.json')) as {
  readonly everywhere: Record<string, string>
  readonly names: Record<string, string>
  readonly allowed: readonly Exception[]
}
const everywhere: Words = new Map(Object.entries(list.everywhere))
const inNames: Words = new Map([...everywhere, ...Object.entries(list.names)])
const phrases = [...everywhere].filter(([word]) => word.includes(' '))

/** The words of an identifier or a path: `readHTTPHead` has `read`, `http` and `head`. */
const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/)

/** The first retired word of a text, in the singular; undefined: none. */
function retiredIn(text: string, words: Words): string | undefined {
  for (const word of wordsOf(text)) {
    if (words.has(word)) return word
    if (word.endsWith('s') && words.has(word.slice(0, -1))) return word.slice(0, -1)
  }
  return undefined
}

const phraseIn = (text: string): string | undefined =>
  phrases.find(([words]) => text.toLowerCase().includes(words))?.[0]

const isAllowed = (word: string, name: string, path: string): boolean =>
  list.allowed.some(
    ({ word: kept, names, files }) =>
      kept === word &&
      (names === undefined || names.includes(name)) &&
      (files === undefined || files.some((pattern) => matchesGlob(path, pattern))),
  )

/** Problems of one file, as text for the developer. */
export function retiredWords(file: Pick<SourceFile, 'path' | 'text' | 'parsed'>): string[] {
  const problems = new Set<string>()
  const report = (word: string, where: string): void =>
    void problems.add(`${where}: retired word "${word}". Use "${inNames.get(word)}".`)
  const { program, comments } = file.parsed
  const at = (start: number): string => `${file.path}:${lineAt(file, start)}`
  const name = ({ name: text, start }: { name: string; start: number }): void => {
    const word = retiredIn(text, inNames)
    if (word !== undefined && !isAllowed(word, text, file.path)) report(word, at(start))
  }
  const prose = (text: string, start: number): void => {
    const word = retiredIn(text, everywhere) ?? phraseIn(text)
    if (word !== undefined) report(word, at(start))
  }
  const inPath = retiredIn(file.path, inNames)
  if (inPath !== undefined && !isAllowed(inPath, file.path, file.path)) report(inPath, file.path)
  new Visitor({
    Identifier: name,
    PrivateIdentifier: name,
    Literal: ({ value, start }) => {
      if (typeof value === 'string') prose(value, start)
    },
    TemplateElement: ({ value, start }) => prose(value.raw, start),
  }).visit(program)
  for (const { value, start } of comments) prose(value, start)
  return [...problems]
}
