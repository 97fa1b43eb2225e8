import { DecodeFitter } from '../latency/decode-fitter.ts'
import type { EngineEstimators } from './engine-estimators.ts'

/**
 * Estimators shared by engines of one hardware profile: the start for new engines, and the fallback for uncertain
 * ones.
 */
export class HardwareClass {
  /** Engine with the highest confidence. */
  surest: EngineEstimators | null = null
  /** Fits decode times of all its engines. */
  readonly decode = new DecodeFitter()
  /** The same without the delays by prefills. */
  readonly step = new DecodeFitter()

  /** Records that an engine's fit changed: it may now have the highest confidence. */
  learned(estimators: EngineEstimators): void {
    if (estimators.learner.samples === 0) return
    if (this.surest === null || estimators.learner.confidence > this.surest.learner.confidence) this.surest = estimators
  }

  forgotten(estimators: EngineEstimators): void {
    if (this.surest === estimators) this.surest = null
  }
}
