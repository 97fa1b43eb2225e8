/** A fault as JSON, with snake_case names. Unknown fields are rejected. */
import { didYouMean } from '../../../src/config/suggest.ts'
import { faultKinds, type FaultRule } from './faults.ts'

interface Field {
  readonly must: string
  holds(value: unknown): boolean
}

const number = (min: number, max: number): Field => ({
  must: `a number from ${min}${max === Infinity ? '' : ` to ${max}`}`,
  holds: (value) => typeof value === 'number' && value >= min && value <= max,
})

const whole = (min: number, max = Infinity): Field => {
  const { must, holds } = number(min, max)
  return { must: must.replace('a number', 'a whole number'), holds: (value) => Number.isInteger(value) && holds(value) }
}

const oneOf = (...names: readonly string[]): Field => ({
  must: `one of ${names.join(', ')}`,
  holds: (value) => names.includes(value as string),
})

const after = whole(0)

const needed: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  hang: { where: oneOf('head', 'body', 'middle') },
  status: { status: whole(200, 599) },
  malformed: { where: oneOf('head', 'body', 'record') },
}

const optional: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  hang: { after },
  reset: { after },
  cut: { after },
  status: { body: { must: 'JSON', holds: () => true } },
  slow: { factor: number(0, Infinity), delay_ms: number(0, Infinity) },
}

const ofAll: Readonly<Record<string, Field>> = {
  share: number(0, 1),
  count: whole(1),
  scope: oneOf('inference', 'all'),
}

/** Parses a fault. Throws an Error that describes an invalid field. */
export function readFault(text: string): FaultRule {
  const { kind, ...given } = objectOf(text)
  if (!faultKinds.includes(kind as FaultRule['kind']))
    throw new Error(`unknown fault ${JSON.stringify(kind)}: must be one of ${faultKinds.join(', ')}`)
  const name = kind as FaultRule['kind']
  for (const [field, { must }] of Object.entries(needed[name] ?? {}))
    if (!(field in given)) throw new Error(`${name} needs ${field}: ${must}`)
  const known = { ...needed[name], ...optional[name], ...ofAll }
  for (const [field, value] of Object.entries(given)) {
    const names = Object.keys(known)
    const found = known[field]
    if (found === undefined)
      throw new Error(`${name} has no "${field}"${didYouMean(field, names) || '.'} Fields: ${names.join(', ')}`)
    if (!found.holds(value)) throw new Error(`${field} of ${name} must be ${found.must}, got ${JSON.stringify(value)}`)
  }
  const { delay_ms: delayMs, ...rest } = given
  return { kind: name, ...rest, ...(delayMs === undefined ? {} : { delayMs }) } as FaultRule
}

function objectOf(text: string): Record<string, unknown> {
  const wrong = new Error('the body must be a fault as JSON, such as {"kind":"refuse"}')
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (error) {
    wrong.cause = error
  }
  throw wrong
}
