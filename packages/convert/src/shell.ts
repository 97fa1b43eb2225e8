/** Reads flags from command lines, shell scripts and container manifests. */

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
