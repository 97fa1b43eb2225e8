import type { SlidingCount } from '../sliding-count.ts'
import type { ForeignLoad } from './estimators/foreign-load.ts'

/** Kind of work of an engine. */
export type Work = 'encode' | 'prefill' | 'answer'

/** Load of an engine without regard to prompt blocks; `LoadStats` keeps it. */
export interface EngineLoad {
  work: Work
  requests: number
  readonly arrivals: SlidingCount
  /** Values at `recentAt`. */
  recentWork: number
  recentNewTokens: number
  recentAt: number
  turn: number
  readonly foreign: ForeignLoad
}
