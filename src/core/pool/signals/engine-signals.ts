import type { Mutable } from '../../mutable.ts'
import type { Signals } from '../../routing/policy.ts'

const NO_COST_MODEL: Signals['costModel'] = { fixedS: NaN, perTokenS: NaN, perPairS: NaN }

export const NO_SLOW_TOKENS: Signals['slowTokens'] = { host: 0, disk: 0, remote: 0 }

/**
 * Row of signals of one engine, reused by all decisions. Only signals that the current policy needs are up to date.
 * NaN: missing.
 */
export class EngineSignals implements Mutable<Signals> {
  readonly id: string
  weight = NaN
  // All fields are initialised with doubles, so that V8 does not change the object's shape later.
  requests = NaN
  arrivals = NaN
  turn = NaN
  recentWork = NaN
  recentNewTokens = NaN
  activeBlocks = NaN
  newActiveBlocks = NaN
  liveTokens = NaN
  liveSharers = NaN
  cachedTokens = NaN
  slowTokens = NO_SLOW_TOKENS
  lookupTokens = NaN
  queuedPrefills = NaN
  usualQueuedPrefills = NaN
  queuedPrefillTokens = NaN
  queuedWork = NaN
  queuedPrefillS = NaN
  placeWaitS = NaN
  delayS = NaN
  laterS = NaN
  itlS = NaN
  addedItlS = NaN
  foreignRequests = NaN
  capacityBlocks = NaN
  rttS = NaN
  costModel = NO_COST_MODEL
  confidence = NaN
  warmth = NaN
  adapterFit = NaN

  constructor(id: string) {
    this.id = id
  }
}
