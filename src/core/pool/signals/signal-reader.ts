import type { Admission } from '../../contract/admission.ts'
import type { Prediction } from '../../latency/prediction.ts'
import type { Signal } from '../../routing/policy.ts'
import type { EngineRef } from '../booking-ref.ts'
import { PromptLookup } from './prompt-lookup.ts'
import type { PromptQuery } from './prompt-signals.ts'
import { groupsOf, type SignalGroup } from './signal-groups.ts'
import type { SignalSources } from './signal-sources.ts'

/** Signals for one request at one time. */
export class SignalReader implements PromptQuery {
  readonly sources: SignalSources
  readonly admission: Admission
  readonly now: number
  readonly prompt: PromptLookup
  /** Predictions that were made, by the engines' slots: a decision and its booking use the same. */
  readonly predictions: (Prediction | undefined)[] = []
  readonly #engines: readonly EngineRef[]
  readonly #written: SignalGroup[] = []

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
    for (const group of groupsOf(signals)) {
      if (this.#written.includes(group)) continue
      this.#written.push(group)
      group.write(this, this.#engines)
    }
  }
}
