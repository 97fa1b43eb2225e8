/**
 * Decoding of payloads between gateways and objects of different versions: absent fields get defaults, unknown fields
 * are ignored. Hosts decode everything that crossed a wire.
 */
import type { Admission } from './admission.ts'
import { endedAs, type Outcome } from './outcome.ts'
import type { EngineSpec, PoolConfig } from './pool-config.ts'
import { PAYLOAD_VERSION } from './payload-version.ts'
import type { Resume } from './resume.ts'

const NO_BLOCKS = new Uint32Array(0)

export function readAdmission(given: Partial<Admission> & Pick<Admission, 'id'>): Admission {
  const defaults: Omit<Admission, 'id'> = {
    version: PAYLOAD_VERSION,
    configVersion: 0,
    model: '',
    adapter: null,
    promptTokens: 0,
    tokenSource: 'bytes',
    blocks: NO_BLOCKS,
    session: null,
    priority: 0,
    expectedOutputTokens: null,
    tenant: '',
    overrides: null,
    hints: null,
    unsplittable: null,
    encodeItems: 0,
    attempt: 0,
    avoid: [],
  }
  return withDefaults<Admission>(defaults, given)
}

export function readOutcome(given: Partial<Outcome> & Pick<Outcome, 'result'>): Outcome {
  return withDefaults<Outcome>({ ...endedAs(given.result), failedEngine: null }, given)
}

export function readResume(given: Partial<Resume> & Pick<Resume, 'admission' | 'placement'>): Resume {
  const defaults = { firstTokenSeen: false, outputBlocks: 0 }
  return { ...withDefaults<Resume>(defaults, given), admission: readAdmission(given.admission) }
}

type RequiredKey<T> = { [Key in keyof T]-?: object extends Pick<T, Key> ? never : Key }[keyof T]

/** Fields that every gateway sends, filled in by the schema of the configuration. Fields added later are optional. */
const POOL_FIELDS: Readonly<Record<RequiredKey<PoolConfig>, true>> = {
  cluster: true,
  pool: true,
  blockTokens: true,
  policy: true,
  shadow: true,
  split: true,
  leaseMs: true,
  retry: true,
  circuit: true,
  statsIntervalMs: true,
  indexEntries: true,
  engines: true,
}

type PoolMessage = Partial<Omit<PoolConfig, 'engines'>> & {
  readonly engines?: readonly (Partial<EngineSpec> & Pick<EngineSpec, 'id'>)[]
}

/** Throws an error if a field is absent: a default here would differ from the configuration's. */
export function readPool(given: PoolMessage): PoolConfig {
  const absent = Object.keys(POOL_FIELDS).filter((name) => given[name as keyof PoolMessage] === undefined)
  if (absent.length > 0)
    throw new TypeError(
      `pool "${given.pool}" of cluster "${given.cluster}": ${absent.join(', ')} must be set. ` +
        'Deploy the same version of the gateway and of the Durable Objects.',
    )
  const pool = withDefaults<PoolConfig>({}, given)
  return { ...pool, engines: pool.engines.map(readEngine) }
}

export function readEngine(given: Partial<EngineSpec> & Pick<EngineSpec, 'id'>): EngineSpec {
  const defaults: Omit<EngineSpec, 'id'> = {
    role: 'any',
    models: null,
    labels: {},
    weight: 1,
    maxInFlight: null,
    prefixCaching: 'auto',
    cacheBlocks: null,
    rttMs: 0,
    profile: null,
  }
  return withDefaults<EngineSpec>(defaults, given)
}

/** Merges: fields of `given` replace those of `defaults`. */
function withDefaults<Whole extends object>(defaults: Partial<Whole>, given: object): Whole {
  const whole: Record<string, unknown> = { ...defaults }
  for (const name in given) {
    const value = (given as Record<string, unknown>)[name]
    if (value !== undefined) whole[name] = value
  }
  return whole as Whole
}
