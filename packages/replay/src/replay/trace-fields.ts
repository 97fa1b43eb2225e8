/** Fields of the lines of traces, and keys of their blocks. */
import { hashText, rollHash } from '../../../simulator/src/block-keys.ts'
import { TraceError } from './trace-error.ts'

type Fields = Readonly<Record<string, unknown>>

interface Place {
  readonly line: number
  /** Where the fields are in the line, with a dot at the end. Absent: they are its own. */
  readonly path?: string
}

/** Throws a TraceError for a field that is not a number of at least `min`. */
export function numberIn(
  fields: Fields,
  field: string,
  { line, path = '', min = 0 }: Place & { readonly min?: number },
) {
  const value = fields[field]
  if (typeof value === 'number' && Number.isFinite(value) && value >= min) return value
  const rule = min === 0 ? 'must be a non-negative number' : `must be a number from ${min}`
  throw new TraceError(line, `has ${path}${field} ${JSON.stringify(value)}; ${rule}`)
}

/** Throws a TraceError for a field that is not a list of numbers. */
export function numbersIn(fields: Fields, field: string, { line, path = '' }: Place): readonly number[] {
  const value = fields[field]
  if (Array.isArray(value) && value.every((one) => typeof one === 'number')) return value
  throw new TraceError(line, `has no list of numbers \`${path}${field}\``)
}

/** Throws a TraceError for a field that is not a text. */
export function textIn(fields: Fields, field: string, { line, path = '' }: Place): string {
  const value = fields[field]
  if (typeof value === 'string' && value !== '') return value
  throw new TraceError(line, `has ${path}${field} ${JSON.stringify(value)}; must be a text`)
}

/**
 * Keys of full blocks, two lanes each, of ids that identify the content of a block and not the prompt before it.
 * @param scope ids of different scopes are different
 */
export function chainedKeys(ids: readonly number[], scope: string): Uint32Array {
  const keys = new Uint32Array(ids.length * 2)
  let [one, other] = [hashText(scope, 0x5bd1_e995), hashText(scope, 0x1234_5678)]
  ids.forEach((id, at) => {
    const high = Math.floor(id / 2 ** 32)
    one = rollHash(rollHash(one, high), id)
    other = rollHash(rollHash(other, high), id)
    keys.set([one, other], 2 * at)
  })
  return keys
}
