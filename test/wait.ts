/** Waits for events, not for times: a machine that is busy with other work takes longer, and nothing fails. */

/** Far beyond what any machine needs; below the limit of a test, so that the error names what did not come about. */
const LIMIT_MS = 45_000

/** Looks every `everyMs` until `look` returns something truthy, and returns that. Throws what `look` throws. */
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
 * Lets the event loop go round. What was written to a socket of this process has been read at its other end in this process
 * after that.
 */
export async function turns(count = 10): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}
