import type { Admission } from '../../contract/admission.ts'
import type { LoadingCosts } from '../../latency/loading-costs.ts'
import type { ActiveBlocks } from '../../prefix-index/active-blocks.ts'
import type { PrefixIndex } from '../../prefix-index/prefix-index.ts'
import type { LoadStats } from '../load-stats.ts'

/** State of a pool from which the signals of requests are read. */
export interface SignalSources {
  readonly index: PrefixIndex
  readonly active: ActiveBlocks
  readonly load: LoadStats
  readonly blockTokens: number
  readonly loading: LoadingCosts
  readonly output: { readonly tokens: number | null }
}

/** A request at one time, for which they are read. */
export interface SignalQuery {
  readonly sources: SignalSources
  readonly admission: Admission
  readonly now: number
}
