/** Checks of a cell. What differs becomes the reason of its failure. */
import { isDeepStrictEqual } from 'node:util'
import { setTimeout as delay } from 'node:timers/promises'

const POLL_MS = 25
/** Long, because a busy machine is slow: only a condition that never holds waits for it. */
const LIMIT_MS = 40_000
const SHOWN_CHARS = 300

const shown = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return text.length <= SHOWN_CHARS ? text : `${text.slice(0, SHOWN_CHARS)}…`
}

/** Throws if the values differ. */
export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) throw new Error(`${what}: ${shown(actual)} instead of ${shown(expected)}`)
}

export function expectTrue(what: string, holds: boolean): void {
  if (!holds) throw new Error(what)
}

/** Waits until the value is as expected. Throws with the last one if it never is. */
export async function eventually<Value>(
  what: string,
  read: () => Promise<Value> | Value,
  expected: Value,
): Promise<void> {
  await eventuallyTrue(what, read, (value) => isDeepStrictEqual(value, expected), shown(expected))
}

export async function eventuallyTrue<Value>(
  what: string,
  read: () => Promise<Value> | Value,
  holds: (value: Value) => boolean,
  expected: string,
): Promise<void> {
  const until = performance.now() + LIMIT_MS
  let value = await read()
  while (!holds(value)) {
    if (performance.now() > until) throw new Error(`${what}: ${shown(value)} instead of ${expected}`)
    await delay(POLL_MS)
    value = await read()
  }
}
