/** Milliseconds of a day. */
export const DAY_MS = 86_400_000

/** Days in UTC since the epoch. `now` in milliseconds since the epoch. */
export const dayOf = (now: number): number => Math.floor(now / DAY_MS)
