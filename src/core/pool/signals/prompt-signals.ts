import type { EngineRef } from '../booking-ref.ts'
import { NO_SLOW_TOKENS } from './engine-signals.ts'
import type { PromptLookup } from './prompt-lookup.ts'
import type { SignalQuery } from './signal-sources.ts'

export interface PromptQuery extends SignalQuery {
  readonly prompt: PromptLookup
}

/** Writes what the engines have of the prompt: blocks of live requests, and cached tokens. */
export function writePromptSignals({ sources, admission, prompt }: PromptQuery, engines: readonly EngineRef[]): void {
  const { active, index } = sources
  const { hints } = admission
  const { hasHints } = prompt
  prompt.match()
  for (let at = 0; at < engines.length; at++) {
    const engine = engines[at]!
    const { signals, estimators } = engine
    const shares = prompt.shares(engine)
    signals.newActiveBlocks = active.newBlocks(estimators.number, prompt.shape, shares)
    signals.liveTokens =
      shares && !estimators.cacheFeedback.silentMiss ? prompt.tokensOf(index.live[estimators.number]!) : -1
    signals.liveSharers = signals.liveTokens > 0 ? index.sharers[estimators.number]! : 0
    signals.slowTokens = hasHints ? prompt.cached(engine) : NO_SLOW_TOKENS
    signals.lookupTokens = hints === null ? NaN : prompt.cachedByHints(engine)
    signals.cachedTokens = hasHints ? prompt.cached(engine).total : prompt.cachedByIndex(engine)
  }
}
