import { setTimeout as sleep } from 'node:timers/promises'

/** Calls it repeatedly. Resolves with the milliseconds until it held; rejects after `limitMs`. */
export async function until(
  holds: () => Promise<boolean>,
  what: string,
  { everyMs = 50, limitMs = 30_000 } = {},
): Promise<number> {
  const began = performance.now()
  while (!(await holds())) {
    if (performance.now() - began > limitMs) throw new Error(`waited ${limitMs / 1000} s in vain for ${what}`)
    await sleep(everyMs)
  }
  return performance.now() - began
}
