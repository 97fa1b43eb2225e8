/** Further keys, teams and models share the name `other`, so that labels of metrics stay bounded. */
const MAX_NAMES = 1_000

/** Returns the name under which something is counted: its own, or `other` if there are too many names. */
export const boundedName = (counts: ReadonlyMap<string, unknown>, name: string): string =>
  counts.has(name) || counts.size < MAX_NAMES ? name : 'other'
