import type { CacheHint } from '../contract/contract.ts'

export interface Readers {
  /** Engines of the pool, and the instance each reads from. */
  readonly pairs: readonly { readonly engine: string; readonly instance: string }[]
  /** All engines of the pool. */
  readonly engines: readonly string[]
  /** Engines can read each other's cache: the best match of any counts for each, as remote. */
  readonly shared: boolean
  readonly promptTokens: number
}

const NOTHING: PrefixMatch = { host: 0, disk: 0, remote: 0 }

/**
 * Converts holders to hints about engines: one hint per tier that adds tokens to the nearer ones. Instances without an
 * engine of the pool are ignored, except shared stores; nothing exceeds the prompt.
 */
export function hintsOf(holders: Holders, { pairs, engines, shared, promptTokens }: Readers): CacheHint[] {
  const instanceOf = new Map(pairs.map(({ engine, instance }) => [engine, instance]))
  const anyone = shared ? Math.max(holders.shared, ...[...holders.instances.values()].map(({ remote }) => remote)) : 0
  const hints: CacheHint[] = []
  for (const engine of engines) {
    const instance = instanceOf.get(engine)
    const own = instance === undefined ? NOTHING : (holders.instances.get(instance) ?? NOTHING)
    const common = instance === undefined ? anyone : Math.max(anyone, holders.shared)
    let sofar = 0
    for (const [tier, tokens] of [
      ['host', own.host],
      ['disk', own.disk],
      ['remote', Math.max(own.remote, common)],
    ] as const) {
      const matchedTokens = Math.min(promptTokens, tokens)
      if (matchedTokens > sofar) hints.push({ engine, matchedTokens, tier })
      sofar = Math.max(sofar, matchedTokens)
    }
  }
  return hints
}

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

interface Walk {
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
  const inTokens = ({ host, disk, remote }: Walk): PrefixMatch => ({
    host: host * chunkTokens,
    disk: disk * chunkTokens,
    remote: remote * chunkTokens,
  })
  return { instances: new Map([...walks].map(([id, walk]) => [id, inTokens(walk)])), shared: shared * chunkTokens }
}

function walksOf(chunks: readonly (readonly ChunkRow[])[]): Map<string, Walk> {
  const walks = new Map<string, Walk>()
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
function advance(walks: ReadonlyMap<string, Walk>, at: number): boolean {
  let alive = false
  for (const walk of walks.values()) {
    if (walk.remote !== at || walk.worst === 0) continue
    walk.remote = at + 1
    if (walk.worst >= DISK && walk.disk === at) walk.disk = at + 1
    if (walk.worst >= HOST && walk.host === at) walk.host = at + 1
    alive = true
  }
  return alive
}
