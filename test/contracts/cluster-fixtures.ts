import { type Admission, type EngineSignal, type EngineSpec, type EngineStats, type Outcome, PAYLOAD_VERSION, type PoolConfig } from '../../src/core/cluster/contract.ts'

export function engine(id: string, changes: Partial<EngineSpec> = {}): EngineSpec {
  return {
    id,
    role: 'any',
    models: null,
    labels: {},
    weight: 1,
    maxInFlight: null,
    prefixCaching: 'auto',
    cacheBlocks: null,
    rttMs: 0,
    profile: null,
    ...changes,
  }
}

export function engines(...ids: string[]): EngineSpec[] {
  return ids.map((id) => engine(id))
}

export function pool(changes: Partial<PoolConfig> = {}): PoolConfig {
  return {
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
  }
}

let made = 0

export function admission(changes: Partial<Admission> = {}): Admission {
  made += 1
  return {
    version: PAYLOAD_VERSION,
    id: `request-${made}`,
    configVersion: 1,
    model: 'qwen',
    adapter: null,
    promptTokens: 640,
    tokenSource: 'exact',
    blocks: new Uint32Array(0),
    session: null,
    priority: 0,
    expectedOutputTokens: null,
    tenant: 'team-a',
    overrides: null,
    hints: null,
    unsplittable: null,
    encodeItems: 0,
    attempt: 0,
    avoid: [],
    ...changes,
  }
}

export function outcome(changes: Partial<Outcome> = {}): Outcome {
  return { version: PAYLOAD_VERSION, result: 'complete', failure: null, status: 200, usage: null, outputEvents: 0, stages: {}, ...changes }
}

export const failed: Outcome = outcome({ result: 'engine_failed', failure: 'connect', status: null })

export function stats(changes: Partial<EngineStats> = {}): EngineStats {
  return { running: 0, waiting: 0, kvUsage: null, blockTokens: null, cacheBlocks: null, prefixCaching: null, adapters: null, ...changes }
}

export function probe(id: string, at: number, changes: Partial<Extract<EngineSignal, { kind: 'probe' }>> = {}): EngineSignal {
  return { kind: 'probe', engine: id, at, healthy: true, asleep: false, stats: null, ...changes }
}
