import { DecodeFitter } from '../../latency/decode-fitter.ts'
import type { PrefillFitter } from '../../latency/prefill-fitter.ts'

/** Engine whose prefill costs are learned. */
interface ProfiledEngine {
  readonly prefillFitter: PrefillFitter
}

/**
 * Estimators shared by engines of one hardware profile: the start for new engines, and the fallback for uncertain
 * ones.
 */
export class HardwareClass {
  /** Engine with the highest confidence. */
  surest: ProfiledEngine | null = null
  /** Fits decode times of all its engines. */
  readonly decodeFitter = new DecodeFitter()
  /** Fits their decode times without the delays by prefills. */
  readonly stepFitter = new DecodeFitter()

  /** Records that an engine's fit changed: it may now have the highest confidence. */
  learned(engine: ProfiledEngine): void {
    if (engine.prefillFitter.samples === 0) return
    if (this.surest === null || engine.prefillFitter.confidence > this.surest.prefillFitter.confidence)
      this.surest = engine
  }

  forgotten(engine: ProfiledEngine): void {
    if (this.surest === engine) this.surest = null
  }
}
