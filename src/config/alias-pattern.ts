/** Aliases with one `*`, which stands for any characters, also none: `claude-*`. Others stand for themselves. */

const WILDCARD = '*'

export const isPattern = (alias: string): boolean => alias.includes(WILDCARD)

/** Whether it has more than one `*`. */
export const isMalformedPattern = (alias: string): boolean => alias.indexOf(WILDCARD) !== alias.lastIndexOf(WILDCARD)

/** Names are bounded, because clients choose them, and they are logged. */
const NAME = /^[^\s\p{C}]{1,255}$/u

export function matchesPattern(name: string, pattern: string): boolean {
  const { prefix, suffix } = partsOf(pattern)
  return (
    name.length >= prefix.length + suffix.length && name.startsWith(prefix) && name.endsWith(suffix) && NAME.test(name)
  )
}

/** Whether every name of `inner` matches `outer`. */
const covers = (outer: string, inner: string): boolean => {
  const [a, b] = [partsOf(outer), partsOf(inner)]
  return b.prefix.startsWith(a.prefix) && b.suffix.endsWith(a.suffix)
}

/** Whether both match some name, and neither is the narrower one. */
export function isAmbiguous(one: string, other: string): boolean {
  if (covers(one, other) || covers(other, one)) return false
  const [a, b] = [partsOf(one), partsOf(other)]
  const prefixes = a.prefix.startsWith(b.prefix) || b.prefix.startsWith(a.prefix)
  return prefixes && (a.suffix.endsWith(b.suffix) || b.suffix.endsWith(a.suffix))
}

/** Narrower patterns first. */
export const byWidth = (one: string, other: string): number => other.length - one.length

function partsOf(pattern: string): { readonly prefix: string; readonly suffix: string } {
  const at = pattern.indexOf(WILDCARD)
  return { prefix: pattern.slice(0, at), suffix: pattern.slice(at + 1) }
}
