import type { EngineSpec } from '../../src/core/contract/pool-config.ts'
import { DEFAULT_PROFILE, profile } from '../../src/core/latency/profiles.ts'
import { EngineEstimators } from '../../src/core/pool/estimators/engine-estimators.ts'
import { HardwareClass } from '../../src/core/pool/estimators/hardware-class.ts'
import { LoadStats } from '../../src/core/pool/load-stats.ts'
import { EngineState } from '../../src/core/pool/pool-engines/engine-state.ts'

/** State of an engine alone, without the state of its pool. */
export function engineState(slot: number, spec: EngineSpec, load = new LoadStats()): EngineState {
  const learned = { hardwareClass: new HardwareClass(), prior: profile(DEFAULT_PROFILE)!, warmSince: 0 }
  return new EngineState(slot, spec, { load: load.engineLoad(spec), estimators: new EngineEstimators(slot, learned) })
}
