import type { Admission } from '../../contract/admission.ts'
import type { Prediction } from '../../latency/prediction.ts'
import type { Signal } from '../../routing/policy.ts'
import type { EngineRef } from '../booking-ref.ts'
import { NO_SLOW_TOKENS } from './engine-signals.ts'
import { fillItls, usedBlocks } from './decode-load.ts'
import { fillDelays } from './delay-signals.ts'
import { untilPlaceS, untilStartS } from './expected-wait.ts'
import { LOAD_SIGNALS } from '../load-stats.ts'
import { PromptLookup } from './prompt-lookup.ts'
import type { SignalQuery, SignalSources } from './signal-sources.ts'

const OF_PROMPT: readonly Signal[] = [
  'newActiveBlocks',
  'liveTokens',
  'liveSharers',
  'cachedTokens',
  'slowTokens',
  'lookupTokens',
]

/** Signals that are not read from the estimators of the engines. */
const STATELESS: readonly Signal[] = [...LOAD_SIGNALS, 'arrivals', ...OF_PROMPT]

const DELAYS: readonly Signal[] = ['delayS', 'laterS']

const ITLS: readonly Signal[] = ['itlS', 'addedItlS']

/** Signals that are computed together. */
interface SignalGroups {
  readonly load: boolean
  readonly arrivals: boolean
  readonly prompt: boolean
  readonly state: boolean
  readonly delays: boolean
  readonly itls: boolean
}

/** By the list of a policy, which never changes: a decision looks through no names. */
const groupsByList = new WeakMap<readonly Signal[], SignalGroups>()

function groupsOf(signals: readonly Signal[]): SignalGroups {
  let groups = groupsByList.get(signals)
  if (groups === undefined) {
    const delays = DELAYS.some((delay) => signals.includes(delay))
    const itls = ITLS.some((itl) => signals.includes(itl))
    groups = {
      load: itls || signals.some((signal) => LOAD_SIGNALS.includes(signal)),
      arrivals: signals.includes('arrivals'),
      prompt: delays || itls || signals.some((signal) => OF_PROMPT.includes(signal)),
      state: signals.some((signal) => !STATELESS.includes(signal)),
      delays,
      itls,
    }
    groupsByList.set(signals, groups)
  }
  return groups
}

/** Signals for one request at one time. */
export class SignalReader implements SignalQuery {
  readonly sources: SignalSources
  readonly admission: Admission
  readonly now: number
  readonly prompt: PromptLookup
  /** Predictions that were made, by the engines' slots: a decision and its booking use the same. */
  readonly predictions: (Prediction | undefined)[] = []
  readonly #engines: readonly EngineRef[]
  #loadFilled = false
  #arrivalsFilled = false
  #promptFilled = false
  #stateFilled = false
  #delaysFilled = false
  #itlsFilled = false

  constructor(
    sources: SignalSources,
    admission: Admission,
    { now, engines }: { readonly now: number; readonly engines: readonly EngineRef[] },
  ) {
    this.sources = sources
    this.admission = admission
    this.now = now
    this.prompt = new PromptLookup(sources, admission)
    this.#engines = engines
  }

  /** Mean output tokens of the pool's responses; null: none yet. */
  get usualOutputTokens(): number | null {
    return this.sources.output.tokens
  }

  /**
   * Writes signals, and the others that are computed with them, into the engines' rows. NaN: missing, so a policy that
   * needs the signal skips the engine. A cold cache and an empty queue are 0, not missing.
   */
  write(signals: readonly Signal[]): void {
    const { load, arrivals, prompt, state, delays, itls } = groupsOf(signals)
    if (load && !this.#loadFilled) {
      this.#loadFilled = true
      this.sources.load.writeSignals(this.#engines, this.now)
    }
    if (arrivals && !this.#arrivalsFilled) {
      this.#arrivalsFilled = true
      this.sources.load.writeArrivals(this.#engines, this.now)
    }
    if (prompt && !this.#promptFilled) {
      this.#promptFilled = true
      this.#fillPrompt()
    }
    if (state && !this.#stateFilled) {
      this.#stateFilled = true
      this.#fillState()
    }
    if (delays && !this.#delaysFilled) {
      this.#delaysFilled = true
      for (const engine of this.#engines) fillDelays(this, engine)
    }
    if (itls && !this.#itlsFilled) {
      this.#itlsFilled = true
      for (const engine of this.#engines) fillItls(this, engine)
    }
  }

  /** Writes the signals that depend on the prompt. */
  #fillPrompt(): void {
    const engines = this.#engines
    const { prompt } = this
    const { active, index } = this.sources
    const { hints } = this.admission
    const { hasHints } = prompt
    prompt.match()
    for (let at = 0; at < engines.length; at++) {
      const engine = engines[at]!
      const { signals, estimators } = engine
      const shares = prompt.shares(engine)
      signals.newActiveBlocks = active.newBlocks(estimators.number, prompt.shape, shares)
      signals.liveTokens =
        shares && !estimators.feedback.silentMiss ? prompt.tokensOf(index.live[estimators.number]!) : -1
      signals.liveSharers = signals.liveTokens > 0 ? index.sharers[estimators.number]! : 0
      signals.slowTokens = hasHints ? prompt.cached(engine) : NO_SLOW_TOKENS
      signals.lookupTokens = hints === null ? NaN : prompt.cachedByHints(engine)
      signals.cachedTokens = hasHints ? prompt.cached(engine).total : prompt.cachedByIndex(engine)
    }
  }

  /** Writes the signals that do not depend on the prompt. */
  #fillState(): void {
    const engines = this.#engines
    const { load } = this.sources
    const { admission, now } = this
    for (let at = 0; at < engines.length; at++) {
      const { signals, estimators } = engines[at]!
      const { queue } = estimators
      queue.settle(now)
      const foreign = load.foreign(engines[at]!, now, estimators)
      signals.queuedPrefills = Math.max(0, queue.length + foreign.waiting - estimators.places.excess(foreign.requests))
      signals.usualQueuedPrefills = queue.usualLength(now)
      signals.queuedPrefillTokens = queue.newTokens
      signals.queuedWork = queue.work
      signals.placeWaitS = untilPlaceS(admission, estimators, foreign, now)
      signals.queuedPrefillS = untilStartS(estimators, foreign, signals.placeWaitS, now)
      signals.activeBlocks = usedBlocks(this, estimators, foreign)
      signals.capacityBlocks = estimators.capacity.declared ?? Infinity
      signals.costModel = estimators.presentCostModel(now)
      signals.confidence = estimators.learner.confidence
      signals.warmth = estimators.warmth(now)
      signals.adapterFit = estimators.adapters.fit(admission.adapter)
    }
  }
}
