/** Tokens that a request used, as the engine counted them or, for what it did not report, as the gateway saw them. */
export interface UsedTokens {
  readonly promptTokens: number
  readonly outputTokens: number
  /** The output was not read: `outputTokens` is an estimate. */
  readonly isEstimated?: boolean
}
