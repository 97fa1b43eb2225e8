/** Ids of data-parallel ranks: `a/1` is a rank of the server `a`. Other engine ids contain no slash. */

/** Maximum number of ranks of a server. */
export const MAX_RANKS = 256

export const rankIdOf = (server: string, rank: number): string => `${server}/${rank}`

/** Id of the engine's server: its own, unless it is a rank. */
export function serverIdOf(engine: string): string {
  const slash = engine.lastIndexOf('/')
  return slash < 0 ? engine : engine.slice(0, slash)
}

/** Number of the rank. null: the engine is no rank. */
export function rankNumberOf(engine: string): number | null {
  const digits = /\/(\d{1,6})$/.exec(engine)?.[1]
  return digits === undefined ? null : Number(digits)
}
