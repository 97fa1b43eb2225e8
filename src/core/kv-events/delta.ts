/** What a bridge tells the gateway of one engine's cache, and is told: plain data that survives RPC. */

/** One step of an engine's feed. Applied whole, once, in the order of `seq`. */
export interface KvEventDelta {
  readonly engine: string
  /** Of the bridge: a later one of the same engine has a higher number. */
  readonly epoch: number
  /** Grows by one with every step of an epoch. */
  readonly seq: number
  /** What was said before is void: the picture begins anew. */
  readonly reset: boolean
  /** false: it may hold more than was said, of which nothing is known; or the rest of the picture is still to come. */
  readonly complete: boolean
  /** Without another step within this time the feed counts as silent, milliseconds. */
  readonly validMs: number
  /** Size of the blocks that the hashes name. */
  readonly blockTokens: number
  /** How long the oldest event of this step was on its way here, milliseconds; 0: there is none. */
  readonly lagMs: number
  /** Chained hashes, two lanes a block, in no order; none is in both. */
  readonly stored: Uint32Array
  readonly removed: Uint32Array
}

/**
 * `resync`: steps are missing; send the whole picture. `stale`: a later bridge feeds this engine. `unknown`: the pool
 * has
 * no such engine. `block_tokens`: the pool's blocks have another size.
 */
export type KvEventDeltaState = 'ok' | 'resync' | 'stale' | 'unknown' | 'block_tokens'
