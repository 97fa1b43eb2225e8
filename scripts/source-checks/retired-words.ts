/**
 * Words that the glossary of AGENTS.md has replaced. retired-words.json maps each to its term: those below `everywhere`
 * may stand in no name, string or comment, those below `names` in no identifier or file name, because the word has
 * another, ordinary meaning in prose.
 */
import { Visitor } from 'vite'
import { lineAt, readText, type SourceFile } from './source-files.ts'

type Words = ReadonlyMap<string, string>

const read = JSON.parse(readText('scripts/source-checks/retired-words.json')) as Record<
  'everywhere' | 'names',
  Record<string, string>
>
const everywhere: Words = new Map(Object.entries(read.everywhere))
const inNames: Words = new Map([...everywhere, ...Object.entries(read.names)])

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

/** Problems of one file, as text for the developer. */
export function retiredWords(file: SourceFile): string[] {
  const problems = new Set<string>()
  const check = (text: string, where: string, words: Words): void => {
    const word = retiredIn(text, words)
    if (word !== undefined) problems.add(`${where}: retired word "${word}". Use "${words.get(word)}".`)
  }
  check(file.path, file.path, inNames)
  const { program, comments } = file.parsed
  const at = (start: number): string => `${file.path}:${lineAt(file, start)}`
  const name = ({ name: text, start }: { name: string; start: number }): void => {
    if (retiredIn(text, inNames) !== undefined) check(text, at(start), inNames)
  }
  const prose = (text: string, start: number): void => {
    if (retiredIn(text, everywhere) !== undefined) check(text, at(start), everywhere)
  }
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
