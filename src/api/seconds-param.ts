import { Failure } from '../failure.ts'

/** Reads a number of seconds from 0 to `max`. */
export function secondsParam(param: string, text: string, max: number): number {
  const seconds = Number(text)
  if (text.trim() !== '' && seconds >= 0 && seconds <= max) return seconds
  const rule = `must be a number of seconds from 0 to ${max}`
  throw new Failure('bad_value', `${param} is '${text.slice(0, 100)}'. It ${rule}.`, { param })
}
