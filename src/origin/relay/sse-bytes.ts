/** Bytes that separate server-sent events and their lines. */

export const LF = 10

export const CR = 13

export const COLON = 58

/** `d`, the first letter of `data` and of no other field. */
export const DATA = 100
