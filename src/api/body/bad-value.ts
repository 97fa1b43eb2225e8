import { Failure } from '../../failure.ts'

/** Failure of a field that has a value of the wrong kind. `rule` completes "it must be …". */
export const badValue = (path: string, value: unknown, rule: string): Failure =>
  new Failure('bad_value', `${path} is ${abbreviated(value)}: ${rule}.`, { param: path })

/** Shows enough of a value to recognize it, and too little to leak a prompt. */
function abbreviated(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  // Copies no more of a long text.
  const text = JSON.stringify(typeof value === 'string' ? value.slice(0, 60) : value) ?? 'missing'
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
