import type * as z from 'zod/mini'

/** Formats quantities of a configuration for people. Exact: a value that no larger unit divides keeps its unit. */

const SIZES: readonly (readonly [string, number])[] = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
]

const DURATIONS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]

/** Formats a size in bytes, as in `32 MiB`. */
export const sizeText = (bytes: number): string => inUnits(bytes, SIZES, 'bytes')

/** Formats a number, as in `500,000`. */
export const countText = (count: number): string => count.toLocaleString('en')

/** Formats a duration in milliseconds, as in `10 min`. */
export const durationText = (ms: number): string => inUnits(ms, DURATIONS, 'ms')

/** Uses the largest unit in which the value has at most one decimal place. */
function inUnits(value: number, units: readonly (readonly [string, number])[], base: string): string {
  for (const [unit, size] of units) {
    const tenths = (value * 10) / size
    if (value >= size && Number.isInteger(tenths)) return `${tenths / 10} ${unit}`
  }
  return `${value} ${base}`
}

/** Versions above this value are times in milliseconds: the modification time of the configuration file. */
const FIRST_TIME = Date.UTC(2001)

/** Formats a configuration version. A version that is a time is shown as one. */
export const versionText = (version: number): string =>
  version < FIRST_TIME || version > 8.64e15
    ? String(version)
    : `${version} (${new Date(version).toISOString().slice(0, 19).replace('T', ' ')} UTC)`

/* Converts zod's issues to problems with path and rule. */

export interface Finding {
  readonly path: Path
  readonly rule: string
}

/** Rule that a value violates. Schemas may define their own text. */
export function ruleOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? `is required: ${article(issue.expected)}`
        : `must be ${article(issue.expected)}`
    case 'invalid_value':
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`
    case 'too_small':
      return `must ${sizeRule(issue.origin, 'at least', Number(issue.minimum))}`
    case 'too_big':
      return `must ${sizeRule(issue.origin, 'at most', Number(issue.maximum))}`
    default:
      return undefined
  }
}

function article(expected: string): string {
  const names: Record<string, string> = {
    int: 'a whole number',
    number: 'a number',
    string: 'a text',
    boolean: 'true or false',
    array: 'a list',
    object: 'a mapping of keys to values',
    record: 'a mapping of keys to values',
  }
  return names[expected] ?? expected
}

function sizeRule(origin: string, bound: string, limit: number): string {
  const many = limit === 1 ? '' : 's'
  if (origin === 'string') return `have ${bound} ${limit} character${many}`
  if (origin === 'array') return `have ${bound} ${limit} ${limit === 1 ? 'entry' : 'entries'}`
  return `be ${bound} ${limit}`
}

/** Flattens unions to the intended alternative, and unknown keys to one finding each. */
export function findings(issues: readonly z.core.$ZodIssue[], base: Path = []): Finding[] {
  return issues.flatMap((issue): Finding[] => {
    const path = [...base, ...issue.path]
    if (issue.code === 'unrecognized_keys') {
      const rules = issue.message.split('\n')
      return issue.keys.map((key, index) => ({ path: [...path, key], rule: rules[index] ?? issue.message }))
    }
    if (issue.code === 'invalid_key' || issue.code === 'invalid_element') {
      return findings(issue.issues.slice(0, 1), path)
    }
    if (issue.code === 'invalid_union' && issue.errors.length > 0) {
      const meant = issue.errors.find((branch) => !branch.some(isForeign))
      return findings(meant ?? issue.errors[0]!.filter(isForeign), path)
    }
    return [{ path, rule: issue.message }]
  })
}

/** Whether another alternative was intended: the value has another type or another `name`. */
function isForeign(issue: z.core.$ZodIssue): boolean {
  if (issue.path.length > 0)
    return issue.code === 'invalid_value' && issue.path.length === 1 && issue.values.length === 1
  if (issue.code === 'invalid_union') return issue.errors.every(([first]) => first!.path.length === 0)
  return issue.code === 'invalid_type' || (issue.code === 'invalid_value' && typeof issue.input === 'object')
}

/** Configuration problems: path, value, rule. */

/** Returns `; did you mean "x"?` for the most similar known word, or '' if none is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  const wanted = normalise(word)
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(wanted, normalise(candidate))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best === null ? '' : `; did you mean "${best}"?`
}

/** Normalises a word: `blockTokens`, `block-tokens` and `Block_Tokens` equal `block_tokens`. */
function normalise(word: string): string {
  return word.replaceAll(/[-_.\s]/g, '').toLowerCase()
}

/** Optimal string alignment distance: insertions, deletions, replacements, and swaps of neighbours cost 1 each. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, beforeLast[column - 2]! + 1)
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return last[b.length]!
}

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

export type Path = readonly PropertyKey[]

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

export function renderPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[\w-]+$/.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`
    else text += `[${JSON.stringify(String(step))}]`
  }
  return text
}

/** Keys whose values may be secrets, including misspelt ones. Their values are never printed. */
const SECRET_STEP = /secret|passw|auth|(?:key|token|salt)$|^headers?$/i

const longestValue = 80

/** Returns the value at `path` for a message; null: absent or possibly a secret. */
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
