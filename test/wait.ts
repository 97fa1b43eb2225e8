/// <reference types="node" />
/** Waits for events instead of times, so that tests pass on a busy machine. */

/** Longer than any machine needs, and below the limit of a test, so that the error names the missing event. */
const LIMIT_MS = 45_000

/** Calls `look` every `everyMs` until it returns a truthy value, and returns that. Throws what `look` throws. */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  everyMs = 5,
): Promise<Exclude<Found, null | undefined | false>> {
  const from = performance.now()
  for (;;) {
    const found = await look()
    if (found) return found as Exclude<Found, null | undefined | false>
    if (performance.now() - from > LIMIT_MS)
      throw new Error(`This did not come about in ${LIMIT_MS / 1000} s: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}

/**
 * Runs turns of the event loop, after which a write to a socket of this process has been read at its other end in this
 * process.
 */
export async function turns(count = 10): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}
