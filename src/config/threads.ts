/** Number of I/O threads: the key `workers` and the option `--workers`. */
import * as z from 'zod/mini'
import { int, oneOf } from './fields.ts'

const MAX_THREADS = 128

const threadsRule = `must be auto, or a number from 1 to ${MAX_THREADS}`

export const threads = z.union([int(1, MAX_THREADS), oneOf(['auto'])], { error: threadsRule })

/** Parses a thread count of the command line. null: neither `auto` nor a number in range. */
export function parseThreads(value: string): number | 'auto' | null {
  return threads.safeParse(value === 'auto' || value.trim() === '' ? value : Number(value)).data ?? null
}
