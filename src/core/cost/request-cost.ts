/** Work of engines for one attempt of a request. */
export interface RequestCost {
  /** Share in the busy time of its engines, seconds. */
  readonly engineS: number
  /** Prefill that cached tokens have saved, seconds of an engine. */
  readonly savedS: number
}

/** `open`: the booking still runs. null: unknown, or not counted. */
export type CostAnswer = RequestCost | 'open' | null
