/** Holders of a prompt, from the rows of a directory. */

export interface CachePlacement {
  /** '' if a shared store does not name the writer. */
  readonly instance: string
  /** l1: memory of the instance's node. l2: disks or object stores behind it. */
  readonly level: 'l1' | 'l2'
  /** Every instance can read it. */
  readonly shared: boolean
}

/** Placements of one rank's part of one chunk. */
export type ChunkRow = readonly CachePlacement[]

/** Leading tokens of the prompt that an instance can read, by distance; each includes the one before. */
export interface PrefixMatch {
  /** From its own node's memory. */
  readonly host: number
  /** From memory and its own disk. */
  readonly disk: number
  /** From these and shared stores. */
  readonly remote: number
}

export interface Holders {
  readonly instances: ReadonlyMap<string, PrefixMatch>
  /** Leading tokens in shared stores, for instances that hold nothing themselves. */
  readonly shared: number
}

interface InstanceWalk {
  host: number
  disk: number
  remote: number
  /** Last row that named the instance, and its distance. */
  row: number
  reach: number
  /** Distance of the current chunk: that of its farthest rank. */
  worst: number
}

const HOST = 3

const DISK = 2

const REMOTE = 1

/**
 * Counts leading chunks. A chunk counts for an instance only if the rows of all ranks are there. Reads each placement
 * once, because a prompt may have hundreds of chunks with dozens of holders each.
 * @param chunks rows of each chunk, one per rank
 */
export function holdersOf(chunks: readonly (readonly ChunkRow[])[], chunkTokens: number): Holders {
  const walks = walksOf(chunks)
  let shared = 0
  let row = 0
  for (const [at, rows] of chunks.entries()) {
    for (const walk of walks.values()) walk.worst = rows.length === 0 ? 0 : HOST
    let allShared = rows.length > 0
    for (const placements of rows) {
      row += 1
      let isShared = false
      for (const { instance, level, shared: forAll } of placements) {
        isShared ||= forAll
        const walk = walks.get(instance)
        const reach = level === 'l1' ? HOST : forAll ? REMOTE : DISK
        if (walk === undefined || (walk.row === row && walk.reach >= reach)) continue
        walk.row = row
        walk.reach = reach
      }
      allShared &&= isShared
      for (const walk of walks.values())
        walk.worst = Math.min(walk.worst, walk.row === row ? walk.reach : isShared ? REMOTE : 0)
    }
    if (allShared && shared === at) shared = at + 1
    if (!advance(walks, at) && shared <= at) break
  }
  const inTokens = ({ host, disk, remote }: InstanceWalk): PrefixMatch => ({
    host: host * chunkTokens,
    disk: disk * chunkTokens,
    remote: remote * chunkTokens,
  })
  return { instances: new Map([...walks].map(([id, walk]) => [id, inTokens(walk)])), shared: shared * chunkTokens }
}

function walksOf(chunks: readonly (readonly ChunkRow[])[]): Map<string, InstanceWalk> {
  const walks = new Map<string, InstanceWalk>()
  for (const rows of chunks) {
    for (const row of rows) {
      for (const { instance } of row) {
        if (instance !== '' && !walks.has(instance))
          walks.set(instance, { host: 0, disk: 0, remote: 0, row: 0, reach: 0, worst: 0 })
      }
    }
  }
  return walks
}

/** Adds the chunk to every walk that reached it. false: no walk continues. */
function advance(walks: ReadonlyMap<string, InstanceWalk>, at: number): boolean {
  let continues = false
  for (const walk of walks.values()) {
    if (walk.remote !== at || walk.worst === 0) continue
    walk.remote = at + 1
    if (walk.worst >= DISK && walk.disk === at) walk.disk = at + 1
    if (walk.worst >= HOST && walk.host === at) walk.host = at + 1
    continues = true
  }
  return continues
}
