/** Who holds how much of a prompt, from a directory's rows. */

export interface CachePlacement {
  /** '' where a shared store does not say who wrote it. */
  readonly instance: string
  /** l1: the memory of the instance's node. l2: what lies behind it, disks or object stores. */
  readonly level: 'l1' | 'l2'
  /** Every instance can read it. */
  readonly shared: boolean
}

/** Placements of one rank's part of one chunk. */
export type ChunkRow = readonly CachePlacement[]

/** Leading tokens of the prompt an instance can read, by how far it has to reach: each includes the one before. */
export interface Reach {
  /** From its own node's memory. */
  readonly host: number
  /** From that and its own disk. */
  readonly disk: number
  /** From those and what all share. */
  readonly remote: number
}

export interface Holders {
  readonly instances: ReadonlyMap<string, Reach>
  /** Leading tokens in shared stores, for instances that hold nothing themselves. */
  readonly shared: number
}

interface Walk {
  host: number
  disk: number
  remote: number
}

/**
 * Counts leading chunks: a chunk counts for an instance only when every rank's row is there.
 * @param chunks the rows of each chunk, one a rank
 */
export function holdersOf(chunks: readonly (readonly ChunkRow[])[], chunkTokens: number): Holders {
  const walks = new Map<string, Walk>()
  for (const rows of chunks) for (const row of rows) for (const { instance } of row) if (instance !== '') walks.set(instance, { host: 0, disk: 0, remote: 0 })
  const shared = { chunks: 0 }
  for (const [at, rows] of chunks.entries()) {
    const isShared = rows.length > 0 && rows.every((row) => row.some((placement) => placement.shared))
    if (isShared && shared.chunks === at) shared.chunks = at + 1
    let alive = shared.chunks > at
    for (const [instance, walk] of walks) {
      if (walk.remote !== at) continue
      const reach = reachOf(rows, instance)
      if (reach === 0) continue
      walk.remote = at + 1
      if (reach >= DISK && walk.disk === at) walk.disk = at + 1
      if (reach >= HOST && walk.host === at) walk.host = at + 1
      alive = true
    }
    if (!alive) break
  }
  const inTokens = ({ host, disk, remote }: Walk): Reach => ({ host: host * chunkTokens, disk: disk * chunkTokens, remote: remote * chunkTokens })
  return { instances: new Map([...walks].map(([id, walk]) => [id, inTokens(walk)])), shared: shared.chunks * chunkTokens }
}

const HOST = 3
const DISK = 2
const REMOTE = 1

/** How near the instance has the whole chunk: the farthest of its ranks decides. 0: it cannot read it. */
function reachOf(rows: readonly ChunkRow[], instance: string): number {
  let worst = HOST
  for (const row of rows) {
    let best = 0
    for (const placement of row) {
      const own = placement.instance === instance
      const reach = own && placement.level === 'l1' ? HOST : own && !placement.shared ? DISK : placement.shared ? REMOTE : 0
      if (reach > best) best = reach
    }
    if (best < worst) worst = best
    if (worst === 0) return 0
  }
  return rows.length === 0 ? 0 : worst
}
