/** Reads flags from command lines, shell scripts and container manifests. */
import { loadAll } from 'js-yaml'
import { isJsonObject } from '../../core/json.ts'

export type Tree = Record<string, unknown>

/** Flags of one command line. Records which of them were read, so that the others can be reported. */
export class Flags {
  readonly #given = new Map<string, string[][]>()
  readonly #read = new Set<string>()

  constructor(words: readonly string[]) {
    let values: string[] | null = null
    for (const word of words) {
      const flag = /^--([A-Za-z][\w-]*)(?:=([\s\S]*))?$/.exec(word)
      if (flag === null) values?.push(word)
      else values = this.#add(flag[1]!.replaceAll('_', '-'), flag[2])
    }
  }

  #add(name: string, value: string | undefined): string[] {
    const values = value === undefined ? [] : [value]
    this.#given.set(name, [...(this.#given.get(name) ?? []), values])
    return values
  }

  has(name: string): boolean {
    this.#read.add(name)
    return this.#given.has(name)
  }

  /** Values of each occurrence. */
  each(name: string): readonly (readonly string[])[] {
    this.#read.add(name)
    return this.#given.get(name) ?? []
  }

  all(name: string): readonly string[] {
    return this.each(name).flat()
  }

  one(name: string): string | null {
    return this.all(name).at(-1) ?? null
  }

  /** Values separated by commas. */
  list(name: string): readonly string[] {
    return (this.one(name) ?? '').split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  }

  /** Flags that were not read, with their values. */
  unread(): readonly (readonly [name: string, value: string])[] {
    return [...this.#given].flatMap(([name, values]) =>
      this.#read.has(name) ? [] : [[name, values.flat().join(' ')] as const],
    )
  }
}

/** `\` and a newline, a quoted part, a separator of commands, blanks, or one character. */
const TOKEN = /\\\n|\\[\s\S]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|&&|\|\||[;&|\n]|[ \t\r]+|#|[^\s]/g

/**
 * Splits a shell script into commands of words. Variables that the script assigns are inserted; others remain as
 * written. Nothing is executed.
 */
export function commandsOf(script: string): string[][] {
  const variables = new Map<string, string>()
  const commands: string[][] = [[]]
  let word: string | null = null
  let isComment = false
  const endWord = () => {
    if (word === null) return
    const complete = inserted(word, variables).replaceAll(LITERAL_DOLLAR, '$')
    const assigned = commands.at(-1)!.every((one) => one === 'export')
      ? /^([A-Za-z_]\w*)=([\s\S]*)$/.exec(complete)
      : null
    if (assigned === null) commands.at(-1)!.push(complete)
    else variables.set(assigned[1]!, assigned[2]!)
    word = null
  }
  for (const [token] of script.matchAll(TOKEN)) {
    if (isComment && token !== '\n') continue
    isComment = false
    if (token === '\\\n' || /^[ \t\r]+$/.test(token)) endWord()
    else if (/^(?:[;&|\n]|&&|\|\|)$/.test(token)) {
      endWord()
      commands.push([])
    } else if (token === '#' && word === null) isComment = true
    else word = (word ?? '') + unquoted(token)
  }
  endWord()
  return commands.filter((words) => words.some((one) => one !== 'export'))
}

/** Stands for a `$` that is no variable while a word is read. */
const LITERAL_DOLLAR = '\0'

function unquoted(token: string): string {
  if (token.startsWith("'") && token.length > 1) return token.slice(1, -1).replaceAll('$', LITERAL_DOLLAR)
  const inner = token.startsWith('"') && token.length > 1 ? token.slice(1, -1) : token
  return inner.replaceAll('\\$', LITERAL_DOLLAR).replaceAll(/\\(["\\`])/g, '$1')
}

const inserted = (text: string, variables: ReadonlyMap<string, string>): string =>
  text.replaceAll(
    /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g,
    (whole, braced?: string, fallback?: string, plain?: string) =>
      variables.get(braced ?? plain ?? '') ?? fallback ?? whole,
  )

/** Arguments of each command that runs `program`. Without one, those of the commands that start with a flag. */
export function argumentsOf(commands: readonly (readonly string[])[], program: RegExp): readonly string[][] {
  const found = commands.flatMap((words) => {
    const at = words.findIndex((word) => program.test(word))
    return at < 0 ? [] : [words.slice(at + 1)]
  })
  return found.length > 0
    ? found
    : commands.filter(([first]) => first?.startsWith('--') === true).map((one) => [...one])
}

/** Parses YAML documents that are mappings. A text that is no YAML mapping, such as a script, has none. */
export function documentsOf(text: string): Tree[] {
  try {
    return loadAll(text).filter((one): one is Tree => isJsonObject(one))
  } catch {
    return []
  }
}

export const tree = (value: unknown): Tree => (isJsonObject(value) ? (value as Tree) : {})
export const items = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const text = (value: unknown): string | null =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null

/** Words of one container. The script of a shell (`sh -c`) is split, with the values of the container's variables. */
export function wordsOfContainer({ command, args, env }: Tree): string[] {
  const words = [...items(command), ...items(args)].flatMap((word) => text(word) ?? [])
  const at = words.indexOf('-c')
  if (at < 0 || !/(?:^|\/)(?:ba|da)?sh$/.test(words[0]!)) return words
  const assigned = items(env)
    .map(tree)
    .map(({ name, value }) => `${text(name)}='${text(value) ?? ''}'\n`)
  return commandsOf(`${assigned.join('')}${words.slice(at + 1).join(' ')}`).flat()
}

/** Commands of all containers of a Kubernetes manifest. */
export function containerCommands(manifest: unknown): string[][] {
  if (Array.isArray(manifest)) return manifest.flatMap(containerCommands)
  if (!isJsonObject(manifest)) return []
  const { command, args, ...rest } = manifest as Tree
  const words = [...items(command), ...items(args)].flatMap((word) => text(word) ?? [])
  const script = words.find((word) => word.includes('\n'))
  const own = words.length === 0 ? [] : script === undefined ? [words] : commandsOf(script)
  return [...own, ...Object.values(rest).flatMap(containerCommands)]
}
