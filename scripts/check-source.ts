/**
 * Rejects retired words in identifiers and file names, and lines of the product over 120 characters, which oxfmt does
 * not break in strings and comments: `npm run lint` runs it. scripts/retired-words.json maps each retired word to the
 * term of the glossary in AGENTS.md.
 */
import { globSync, readFileSync } from 'node:fs'
import { parseSync, Visitor } from 'vite'

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const retired = new Map(Object.entries(JSON.parse(read('scripts/retired-words.json')) as Record<string, string>))

/** The words of an identifier or a path: `readHTTPHead` has `read`, `http` and `head`. */
const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/)

/** The first retired word of a name, in the singular; undefined if there is none. */
function retiredIn(name: string): string | undefined {
  for (const word of wordsOf(name)) {
    if (retired.has(word)) return word
    if (word.endsWith('s') && retired.has(word.slice(0, -1))) return word.slice(0, -1)
  }
  return undefined
}

const problems = new Set<string>()

function check(name: string, where: string): void {
  const word = retiredIn(name)
  if (word !== undefined)
    problems.add(`${where}: "${name}" has the retired word "${word}". Use "${retired.get(word)}".`)
}

const MAX_CHARACTERS = 120

/** Regular expressions cannot be broken. */
function checkLines(path: string, text: string): void {
  for (const [at, line] of text.split('\n').entries())
    if (line.length > MAX_CHARACTERS && !/^\s*\/[^/*]/.test(line))
      problems.add(`${path}:${at + 1}: has ${line.length} characters. Use at most ${MAX_CHARACTERS}.`)
}

const root = new URL('..', import.meta.url).pathname
for (const path of globSync('{src,durable,scripts,bench,test}/**/*.{ts,tsx,mjs}', { cwd: root }).sort()) {
  check(path, path)
  const text = read(path)
  if (/^(src|durable)\//.test(path)) checkLines(path, text)
  const { program } = parseSync(path, text)
  const visit = ({ name, start }: { name: string; start: number }): void => {
    if (retiredIn(name) !== undefined) check(name, `${path}:${text.slice(0, start).split('\n').length}`)
  }
  new Visitor({ Identifier: visit, PrivateIdentifier: visit }).visit(program)
}

for (const problem of problems) console.error(problem)
if (problems.size > 0) {
  console.error(`${problems.size} problems. The glossary in AGENTS.md has the terms.`)
  process.exitCode = 1
}
