/** Configuration problems: path, value, rule. */
import { type Path, valueAt } from './path.ts'

export interface Problem {
  /** Path in the document: `clusters[0].pools[0].engines[1].url`. Empty: the whole document. */
  readonly path: string
  /** Invalid value as JSON, shortened; null: absent, or possibly a secret. */
  readonly value: string | null
  /** Violated rule, with a suggestion where possible. */
  readonly rule: string
  /** Line of the document's text, from 1; null when it was not parsed from text. */
  readonly line: number | null
}

/** Lists all problems of a document at once. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    super([`The configuration has ${count}:`, ...problems.map((one) => `  ${describeProblem(one)}`)].join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Formats a problem in one line: `line 7: clusters[0].id: "Paris 1": must be …`. */
export function describeProblem(problem: Problem): string {
  const parts = [
    problem.line === null ? null : `line ${problem.line}`,
    problem.path === '' ? null : problem.path,
    problem.value,
    problem.rule,
  ]
  return parts.filter((part) => part !== null).join(': ')
}

/** Keys whose values may be secrets, including misspelt ones. Their values are never printed. */
const SECRET_STEP = /secret|passw|auth|(?:key|token|salt)$|^headers?$/i

const MAX_VALUE_CHARS = 80

/** Returns the value at `path` for a message; null: absent or possibly a secret. */
export function renderValue(document: unknown, path: Path): string | null {
  if (path.some((step) => SECRET_STEP.test(String(step)))) return null
  const value = valueAt(document, path)
  if (value === undefined || typeof value === 'object') return null
  // A URL may carry a password.
  const text = typeof value === 'string' ? value.replace(/\/\/[^/@\s]*@/, '//…@') : value
  const json = JSON.stringify(text) ?? String(text)
  return json.length > MAX_VALUE_CHARS ? `${json.slice(0, MAX_VALUE_CHARS)}…` : json
}
