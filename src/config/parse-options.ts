/** Input of the parser from the runtime. */

/** Variables from which secrets are read; values of other types are ignored. */
export type Env = Readonly<Record<string, unknown>>

/** Values of the runtime for keys that the document lacks. */
export interface ParseOptions {
  /** Version of a document without `version`: a modification time, which only grows. */
  readonly defaultVersion: number
  /** `observe_share` of pools without it. */
  readonly defaultObserveShare: number
  /** `limits.buffered_bytes` of a document without it, in bytes. Default: 256 MiB. */
  readonly defaultBufferedBytes?: number
  /** Environment whose standard variables (environment.ts) are defaults of the document. Absent: none. */
  readonly environment?: Env
  /** Cluster that this gateway serves, of one document for an edge and its regions. Absent, null: it is the edge. */
  readonly region?: string | null
  /** This process opens `listen` itself, so a loopback address is private. false on Workers. */
  readonly listens: boolean
  /**
   * Returns 64 hexadecimal digits, lower case. Without it, a key that is configured both as text and as its hash is not
   * detected as a duplicate.
   */
  readonly sha256?: (text: string) => string
}
