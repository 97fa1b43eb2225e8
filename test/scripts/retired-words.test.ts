import { readFileSync } from 'node:fs'
import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'
import { retiredWords } from '../../scripts/source-checks/retired-words.ts'

const root = new URL('../..', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')
const list = JSON.parse(read('scripts/source-checks/retired-words.json')) as {
  readonly everywhere: Readonly<Record<string, string>>
  readonly names: Readonly<Record<string, string>>
}

/** Retired words of the glossary, without remarks in brackets and the dots of a prefix. */
const glossary = read('AGENTS.md')
  .split('| term | meaning | retired words |')[1]!
  .split('\n')
  .filter((line) => line.startsWith('| '))
  .flatMap((line) => line.split('|').at(-2)!.split(','))
  .map((word) => word.replace(/\(.*?\)|…/g, '').trim())
  .filter((word) => word !== '' && !word.startsWith('-'))

function problemsOf(text: string, path = 'src/example.ts'): string[] {
  return retiredWords({ path, text, parsed: parseSync(path, text) })
}

/** An identifier with this word, between two others. */
const named = (word: string): string =>
  `const new${word.replace(/ ?\b(\w)/g, (_, letter: string) => letter.toUpperCase())}Of = 1`

describe('words that the glossary has retired', () => {
  it.each(glossary)('%s is rejected by lint', (word) => {
    expect(problemsOf(word.includes(' ') ? `// ${word} at once` : named(word))).toHaveLength(1)
  })

  it('words that the glossary has retired are all words that lint rejects', () => {
    const known = new Set(glossary.flatMap((word) => [word, word.replace(/s$/, '')]))
    expect([...Object.keys(list.everywhere), ...Object.keys(list.names)].filter((word) => !known.has(word))).toEqual([])
  })

  it.each(Object.keys(list.everywhere))('%s is rejected in strings, templates and comments, too', (word) => {
    expect(problemsOf(`f('the ${word}')`)).toHaveLength(1)
    expect(problemsOf(`f(\`the ${word} of \${a}\`)`)).toHaveLength(1)
    expect(problemsOf(`// the ${word}`)).toHaveLength(1)
  })

  it('words that the glossary has retired that are ordinary words are accepted in strings and comments', () => {
    expect(problemsOf(`// The note is cut, as told.\nf('cut')`)).toEqual([])
  })

  it('words that the glossary has retired are accepted in the names that the list allows, and only in their files', () => {
    expect(problemsOf('const book = 1', 'src/platform/node/replicas/messages.ts')).toEqual([])
    expect(problemsOf('const book = 1')).toEqual([
      'src/example.ts:1: retired word "book". Use "estimator (one) or ledger (books)".',
    ])
    expect(problemsOf('const newBook = 1', 'src/platform/node/replicas/messages.ts')).toHaveLength(1)
  })

  it('words that the glossary has retired are rejected in file names', () => {
    expect(problemsOf('', `src/${Object.keys(list.everywhere)[0]}.ts`)).toHaveLength(1)
  })
})
