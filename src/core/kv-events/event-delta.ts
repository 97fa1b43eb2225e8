/** Messages of a bridge about one engine's cache, and their responses: plain data for RPC. */

/** One step of an engine's feed. Applied whole, once, in the order of `seq`. */
export interface KvEventDelta {
  readonly engine: string
  /** Epoch of the bridge: a later bridge of the same engine has a higher number. */
  readonly epoch: number
  /** Grows by one with every step of an epoch. */
  readonly seq: number
  /** Discards the previous state. */
  readonly reset: boolean
  /** false: the engine may have further blocks, or the rest of the full state follows. */
  readonly complete: boolean
  /** Without another step within this time the feed counts as silent, milliseconds. */
  readonly validMs: number
  /** Size of the blocks that the hashes name. */
  readonly blockTokens: number
  /** Age of the oldest event of this step, milliseconds; 0: none. */
  readonly lagMs: number
  /** Chained hashes, two lanes per block, in any order; no hash is in both lists. */
  readonly stored: Uint32Array
  readonly removed: Uint32Array
}

/**
 * `resync`: steps are missing, send the full state. `stale`: a later bridge feeds this engine. `unknown`: the pool has
 * no such engine. `block_tokens`: the pool has another block size.
 */
export type KvEventDeltaState = 'ok' | 'resync' | 'stale' | 'unknown' | 'block_tokens'
