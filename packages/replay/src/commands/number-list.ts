import { UsageError } from '../../../../src/platform/node/usage-error.ts'

/** Reads numbers above 0, separated by commas. Throws a UsageError that names the text. */
export function numbersOf(text: string, flag: string, max: number): number[] {
  const values = text.split(',').map(Number)
  if (values.every((value) => value > 0 && value <= max)) return values
  throw new UsageError(
    `${flag} must be numbers above 0 and up to ${max}, separated by commas, not "${text}".`,
    `Example: ${flag} ${max >= 100 ? '1,2,3' : '0.3,0.7'}`,
  )
}
