/** Converts a name to an engine id: letters, digits, `.`, `_` and `-`. */
export const idOf = (name: string): string =>
  name
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '')
    .slice(0, 60) || 'engine'

/** Returns ids that are unique in the cluster: a repeated name gets a number. */
export function uniqueIds(): (name: string) => string {
  const taken = new Set<string>()
  return (name) => {
    const id = idOf(name)
    let free = id
    for (let number = 2; taken.has(free); number++) free = `${id}-${number}`
    taken.add(free)
    return free
  }
}
