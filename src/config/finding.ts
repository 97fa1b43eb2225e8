/** A violated rule at a path of the document, and the conversion of zod's issues to such findings. */
import type * as z from 'zod/mini'
import type { Path } from './path.ts'

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
    string: 'a string',
    boolean: 'true or false',
    array: 'a list',
    object: 'a mapping of keys to values',
    record: 'a mapping of keys to values',
  }
  return names[expected] ?? expected
}

function sizeRule(origin: string, bound: string, limit: number): string {
  const plural = limit === 1 ? '' : 's'
  if (origin === 'string') return `have ${bound} ${limit} character${plural}`
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
      const intended = issue.errors.find((branch) => !branch.some(isForeign))
      return findings(intended ?? issue.errors[0]!.filter(isForeign), path)
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
