/**
 * Runs the shell blocks of a tutorial as a reader types them, in one folder, and compares the output with its text
 * blocks.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'

export const root = fileURLToPath(new URL('../..', import.meta.url))

interface Step {
  readonly commands: string
  /** Lines that the output of the commands must contain. */
  readonly expected: readonly string[]
}

/** Shell blocks of a page, each with the text block that follows it before the next shell block. */
export function stepsOf(page: string): Step[] {
  const text = readFileSync(new URL(`../../docs/tutorials/${page}`, import.meta.url), 'utf8')
  const steps: { commands: string; expected: string[] }[] = []
  for (const [, language, block] of text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)) {
    if (language === 'sh') steps.push({ commands: block!, expected: [] })
    else if (language === 'text') steps.at(-1)!.expected.push(...block!.trimEnd().split('\n'))
  }
  return steps
}

export interface Ran {
  readonly code: number
  readonly output: string
}

/**
 * Runs commands with bash in a folder; stops at the first failure. Resolves with standard output and error together.
 */
export function bash(commands: string, folder: string, path: string): Promise<Ran> {
  // A gateway that npm has started ends with its parent; here that is the shell of one step.
  const { npm_lifecycle_event: _started, ...inherited } = process.env
  const env = { ...inherited, PATH: path, NO_COLOR: '1', CI: '1', npm_config_loglevel: 'error' }
  return new Promise((resolve) => {
    execFile('bash', ['-c', `set -e\n${commands}`], { cwd: folder, env, timeout: 300_000 }, (error, out, err) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, output: stripVTControlCharacters(`${out}${err}`) })
    })
  })
}

/** Removes what differs between runs of a step: repeated blanks. */
export const missingFrom = (output: string, expected: readonly string[]): string[] => {
  const seen = output.replaceAll(/\s+/g, ' ')
  return expected.filter((line) => !seen.includes(line.trim().replaceAll(/\s+/g, ' ')))
}
