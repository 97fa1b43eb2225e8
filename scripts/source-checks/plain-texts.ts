/**
 * Texts that users read: errors, notes, help, findings. A program does not know, remember, tell, expect, take or want;
 * `say` is for people and `set` for keys. Only strings of product files are read, not comments.
 */
import { Visitor } from 'vite'
import { isProduct, lineAt, type SourceFile } from './source-files.ts'

const PROGRAM = '(?:gateway|engine|server|router|replica|region|pool|worker|cluster|configuration|bridge|client|it)s?'
const VERBS = '(?:know|remember|tell|told|expect|want|believe|say|said|hear|think|forget)s?'

const RULES: readonly (readonly [RegExp, string])[] = [
  [
    new RegExp(`\\b${PROGRAM} (?:does not |do not |cannot |must )?${VERBS}\\b`, 'i'),
    'a program reports, stores or needs',
  ],
  // After an expression: `The engine ${id} knows …`.
  [/^ (?:knows|remembers|tells|expects|wants|believes|hears) /, 'a program reports, stores or needs'],
  [/(?<!\bthere )\b(?:is|are) no (?!longer)[a-z]/i, '"is not a …"'],
  [/\bany more\b/i, '"no longer"'],
  [/\b(?:nobody|whoever)\b/i, 'the name of the thing'],
  [/\bsay (?:which|`|mode|what)/i, '"set" for keys, "name" for values'],
  [/\b(?:means nothing|lives on|go on\b|goes on\b)/i, '"has no effect", "needs" or "continues"'],
]

/** Problems of one file, as text for the developer. */
export function plainTexts(file: Pick<SourceFile, 'path' | 'text' | 'parsed'>): string[] {
  // The simulator sends the messages of vLLM.
  if (!isProduct(file) || file.path.includes('/http-api/')) return []
  const problems: string[] = []
  const check = (text: string, start: number): void => {
    if (!text.trim().includes(' ')) return
    const broken = RULES.find(([pattern]) => pattern.test(text))
    if (broken !== undefined)
      problems.push(`${file.path}:${lineAt(file, start)}: "${broken[0].exec(text)![0]}" in a text. Write ${broken[1]}.`)
  }
  new Visitor({
    Literal: ({ value, start }) => {
      if (typeof value === 'string') check(value, start)
    },
    TemplateElement: ({ value, start }) => check(value.cooked ?? value.raw, start),
    JSXText: ({ value, start }) => check(value, start),
  }).visit(file.parsed.program)
  const joined = /['`] \+ ['`]/.exec(file.text)
  if (joined !== null)
    problems.push(`${file.path}:${lineAt(file, joined.index)}: one text in two strings on one line. Join them.`)
  return problems
}
