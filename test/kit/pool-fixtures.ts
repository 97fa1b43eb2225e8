import type { Admission } from '../../src/core/contract/admission.ts'
import type { EngineSignal, EngineStats } from '../../src/core/contract/engine-signal.ts'
import type { EngineSpec, PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Outcome } from '../../src/core/contract/outcome.ts'
import { readAdmission, readEngine, readOutcome, readPool } from '../../src/core/contract/decode.ts'

export function engine(id: string, changes: Partial<EngineSpec> = {}): EngineSpec {
  return readEngine({ id, ...changes })
}

export function engines(...ids: string[]): EngineSpec[] {
  return ids.map((id) => engine(id))
}

export function pool(changes: Partial<PoolConfig> = {}): PoolConfig {
  return readPool({
    cluster: 'paris',
    pool: 'qwen',
    blockTokens: 64,
    policy: { name: 'least_loaded', options: {} },
    shadow: null,
    split: { mode: 'always', thresholdTokens: 0, fallback: 'decode_only' },
    leaseMs: 60_000,
    retry: { share: 0.2, minPerS: 1 },
    circuit: { failures: 3, openMs: 10_000 },
    statsIntervalMs: 10_000,
    indexEntries: 10_000,
    engines: engines('a', 'b'),
    ...changes,
  })
}

let made = 0

/** Restarts the numbering of admissions. Choices by hash depend on the id. */
export function resetAdmissions(): void {
  made = 0
}

export function admission(changes: Partial<Admission> = {}): Admission {
  made += 1
  return readAdmission({
    id: `request-${made}`,
    configVersion: 1,
    model: 'qwen',
    promptTokens: 640,
    tokenSource: 'exact',
    tenant: 'team-a',
    ...changes,
  })
}

export function outcome(changes: Partial<Outcome> = {}): Outcome {
  return readOutcome({ result: 'complete', status: 200, ...changes })
}

export const failed: Outcome = outcome({ result: 'engine_failed', failure: 'connect', status: null })

export function stats(changes: Partial<EngineStats> = {}): EngineStats {
  return {
    running: 0,
    waiting: 0,
    kvUsage: null,
    blockTokens: null,
    cacheBlocks: null,
    prefixCaching: null,
    adapters: null,
    ...changes,
  }
}

export function probe(
  id: string,
  at: number,
  changes: Partial<Extract<EngineSignal, { kind: 'probe' }>> = {},
): EngineSignal {
  return { kind: 'probe', engine: id, at, healthy: true, asleep: false, stats: null, ...changes }
}
