/** What is wrong with a configuration, said so that a person can mend it: path, value, rule. */

export interface Problem {
  /** Where in the document: `clusters[0].pools[0].engines[1].url`. Empty: the document as a whole. */
  readonly path: string
  /** The offending value as JSON, shortened; null when there is none or it may be a secret. */
  readonly value: string | null
  /** What it has to be, and where possible what was probably meant. */
  readonly rule: string
  /** Line of the document's text, from 1; null when it was not parsed from text. */
  readonly line: number | null
}

export type Path = readonly PropertyKey[]

/** Every problem of a document at once: nobody wants to find them one start at a time. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    super([`The configuration has ${count}:`, ...problems.map((one) => `  ${describeProblem(one)}`)].join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** One problem in one line: `line 7: clusters[0].id: "Paris 1": must be …`. */
export function describeProblem(problem: Problem): string {
  const parts = [
    problem.line === null ? null : `line ${problem.line}`,
    problem.path === '' ? null : problem.path,
    problem.value,
    problem.rule,
  ]
  return parts.filter((part) => part !== null).join(': ')
}

export function renderPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[\w-]+$/.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`
    else text += `[${JSON.stringify(String(step))}]`
  }
  return text
}

/** Steps under which literal secrets may stand, misspelt ones too. Their values are never repeated, not even when they are wrong. */
const SECRET_STEP = /secret|passw|auth|(?:key|token|salt)$|^headers?$/i

const longestValue = 80

/** The value at `path`, for a message; null where showing it would help nobody or could show a secret. */
export function renderValue(document: unknown, path: Path): string | null {
  if (path.some((step) => SECRET_STEP.test(String(step)))) return null
  const value = valueAt(document, path)
  if (value === undefined || typeof value === 'object') return null
  // A URL may carry a password.
  const text = typeof value === 'string' ? value.replace(/\/\/[^/@\s]*@/, '//…@') : value
  const json = JSON.stringify(text) ?? String(text)
  return json.length > longestValue ? `${json.slice(0, longestValue)}…` : json
}

export function valueAt(document: unknown, path: Path): unknown {
  let value = document
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}
