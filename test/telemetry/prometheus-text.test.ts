import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PoolDigest, EngineDigest } from '../../src/core/contract/pool-digest.ts'
import { countedUpTo, Rollups } from '../../src/core/reports/rollups.ts'
import { Exemplars } from '../../src/telemetry/exemplars.ts'
import { exposition, LIMITS_MS } from '../../src/telemetry/prometheus-text.ts'
import { METRICS } from '../../src/telemetry/metrics.ts'
import { record } from '../contracts/ttft.ts'
import { parseExposition } from './parse-exposition.ts'

const replica = { host: 'gateway-2', id: 'r' }
const replicas = [
  { ...replica, state: 'following', bookings: 3 },
  { ...replica, state: 'following', bookings: 4 },
  { ...replica, state: 'away', bookings: 1 },
] as const
const gateway = {
  draining: false,
  silentEngines: 0,
  unreachablePools: 0,
  malformedResources: 1,
  own: {
    droppedRecords: 0,
    droppedSpans: 2,
    bufferedBytes: 2048,
    refusals: { key_wrong: 2 },
    targets: {
      chat: {
        v2: {
          requests: 9,
          refused: 1,
          failed: 2,
          ttftMs: 1_500,
          firstTokens: 6,
          streams: 5,
          outputTokens: 500,
          decodeMs: 5_000,
        },
      },
    },
    mirrors: {
      v1: {
        v2: {
          requests: 4,
          refused: 1,
          failed: 0,
          ttftMs: 600,
          firstTokens: 3,
          streams: 3,
          outputTokens: 30,
          decodeMs: 300,
        },
      },
    },
    costs: {
      key: { ada: { attempts: 2, engineS: 1.5, savedS: 0.5, money: 3 } },
      team: { search: { attempts: 2, engineS: 1.5, savedS: 0.5, money: 3 } },
      model: { qwen: { attempts: 2, engineS: 1.5, savedS: 0.5, money: 3 } },
    },
    budgets: { warned: { ada: 1 }, refused: { 'team:search': 4 } },
    usage: { team: { requests: 5, refused: 1, promptTokens: 90, cachedTokens: 30, outputTokens: 20 } },
    lookups: { made: 3, late: 1, failed: 0, skipped: { tokenize_late: 2 } },
    replicas,
    replicasUp: true,
  },
}

const regions = [
  {
    cluster: 'tokyo',
    model: 'qwen',
    status: {
      reachable: true,
      ageMs: 700,
      rttMs: 30,
      blockingMatch: false,
      engines: 4,
      requests: 9,
      queued: 2,
      expectedTtftMs: 250,
    },
  },
]

const engine = (changes: Partial<EngineDigest> = {}): EngineDigest => ({
  id: 'a',
  role: 'any',
  weight: 1,
  available: true,
  healthy: true,
  draining: false,
  asleep: false,
  circuit: 'open',
  requests: 3,
  activeBlocks: 40,
  queuedPrefillS: 0.5,
  queuedPrefillTokens: 900,
  queuedPrefillWork: 405_450,
  cachedBlocks: 100,
  cacheBlocks: 1000,
  ttftMs: 250,
  hitRate: 0.4,
  kvFeed: { state: 'exact', changes: 70, resyncs: 1, lagMs: 12 },
  requestsTotal: 9,
  failuresTotal: 1,
  ejectionsWithheld: 2,
  condition: 'wedged',
  abandonedTotal: 4,
  rescuedTotal: 3,
  residents: { loaded: [], loads: 3, unloads: 2, failures: 1 },
  compared: { total: 9, disagreed: 2, standsOutSince: null },
  stats: {
    running: 2,
    waiting: 1,
    kvUsage: 0.3,
    blockTokens: 16,
    cacheBlocks: 1000,
    prefixCaching: true,
    adapters: null,
    ageMs: 5,
  },
  learned: {
    costModel: { fixedS: 0, perTokenS: 0.0001, perPairS: 0 },
    samples: 9,
    confidence: 0.8,
    cacheBlocks: null,
    ttftError: 0.2,
    stepLimitMs: 40,
    places: 4,
    predictedCachedTokens: 60,
    actualCachedTokens: 50,
    cachedTokensError: 10,
    restarts: 1,
    silentMiss: ['why'],
    warmth: 1,
  },
  ...changes,
})

const digest = (changes: Partial<PoolDigest> = {}): PoolDigest => ({
  version: 1,
  cluster: 'paris',
  pool: 'qwen',
  configVersion: 1,
  seq: 1,
  epoch: 'e',
  at: 0,
  bookings: 0,
  queue: { requests: 3, oldestMs: 1500 },
  capacity: [{ role: 'any', replicas: 3, neededEngines: 2.5, requestsPerS: 5, spareRequestsPerS: 1, exhaustionS: 60 }],
  capacityError: { minutes: 40, overstated: 4, understated: 1 },
  engines: [engine()],
  decisions: [
    {
      policy: 'predicted',
      fallback: '',
      retry: false,
      placement: 'whole',
      refused: '',
      count: 7,
      shadow: 'agrees',
      shadowGainS: 0.5,
    },
    { policy: 'predicted', fallback: '', retry: true, placement: 'whole', refused: '', count: 2, panic: true },
    { policy: 'least_loaded', fallback: 'kv_aware', retry: false, placement: 'split', refused: '', count: 1 },
    { policy: '', fallback: '', retry: false, placement: '', refused: 'engines_full', count: 4 },
  ],
  ...changes,
})

const rollupsOf = (records: readonly ReturnType<typeof record>[]) => {
  const rollups = new Rollups()
  for (const one of records) rollups.record(one)
  rollups.stages(record(), { prefill_compute: 80 })
  return rollups.groups().map((group) => countedUpTo(group, LIMITS_MS))
}

describe('the text of /metrics', () => {
  const input = {
    digests: [digest()],
    rollups: rollupsOf([
      record(),
      record({
        failedAttempts: ['busy'],
        continuations: ['continued'],
        hedge: 'won',
        notes: ['failover=lyon:no_engine', 'fallback=object_unreachable'],
      }),
    ]),
    gateway,
    regions,
  }
  const families = parseExposition(exposition(input))
  const value = (name: string, labels: Record<string, string> = {}) =>
    families
      .get(name)
      ?.samples.filter((sample) => Object.entries(labels).every(([label, one]) => sample.labels[label] === one))
      .map((sample) => sample.value)

  it('the text of /metrics has the results of each target of a weighted model, and of mirrors', () => {
    const labels = { name: 'chat', target: 'v2' }
    expect(value('firstlight_target_requests_total', labels)).toEqual([9])
    expect(value('firstlight_target_failed_total', labels)).toEqual([2])
    expect(value('firstlight_target_ttft_seconds_total', labels)).toEqual([1.5])
    expect(value('firstlight_target_decode_seconds_total', labels)).toEqual([5])
    expect(value('firstlight_mirror_ttft_seconds_total', { name: 'v1', target: 'v2' })).toEqual([0.6])
  })

  it('the text of /metrics has a region’s expected TTFT in seconds, and none if it has no engines', () => {
    const labels = { model: 'qwen', cluster: 'tokyo' }
    expect(value('firstlight_region_expected_time_to_first_token_seconds', labels)).toEqual([0.25])
    expect(value('firstlight_region_rtt_seconds', labels)).toEqual([0.03])
    expect(value('firstlight_region_digest_age_seconds', labels)).toEqual([0.7])
    expect(value('firstlight_region_blocking_match', labels)).toEqual([0])
    const dark = regions.map((one) => ({ ...one, status: { ...one.status, engines: 0, expectedTtftMs: null } }))
    const text = exposition({ digests: [], rollups: [], gateway, regions: dark })
    expect(text).toContain('firstlight_region_engines{model="qwen",cluster="tokyo"} 0')
    expect(text).not.toContain('firstlight_region_expected_time_to_first_token_seconds{')
  })

  it('the text of /metrics has a sample of every metric of the table', () => {
    expect([...families.keys()].sort()).toEqual(METRICS.map(({ name }) => name).sort())
    for (const { name, type, help } of METRICS) expect(families.get(name)).toMatchObject({ type, help })
  })

  it('the text of /metrics has the costs of keys, teams and models, and the events of budgets', () => {
    expect(value('firstlight_key_engine_seconds_total', { key: 'ada' })).toEqual([1.5])
    expect(value('firstlight_team_saved_seconds_total', { team: 'search' })).toEqual([0.5])
    expect(value('firstlight_model_cost_total', { model: 'qwen' })).toEqual([3])
    expect(value('firstlight_budget_refused_requests_total', { account: 'team:search' })).toEqual([4])
  })

  it('the text of /metrics has the ledger’s values of an engine', () => {
    expect(value('firstlight_engine_active_blocks', { engine: 'a', cluster: 'paris', model: 'qwen' })).toEqual([40])
    expect(value('firstlight_engine_uncomputed_prefix_tokens')).toEqual([900])
    expect(value('firstlight_engine_prefill_tokens_per_second')?.[0]).toBeCloseTo(10_000)
    expect(value('firstlight_engine_silent_miss')).toEqual([1])
    expect(value('firstlight_engine_circuit', { state: 'open' })).toEqual([1])
    expect(value('firstlight_engine_circuit', { state: 'closed' })).toEqual([0])
    expect(value('firstlight_engine_condition', { condition: 'wedged' })).toEqual([1])
    expect(value('firstlight_engine_condition', { condition: 'well' })).toEqual([0])
    expect(value('firstlight_engine_abandoned_total', { engine: 'a' })).toEqual([4])
    expect(value('firstlight_engine_rescued_total', { engine: 'a' })).toEqual([3])
  })

  it('the text of /metrics has replica counts, and none without replicas', () => {
    expect(value('firstlight_replicas_server_up')).toEqual([1])
    expect(value('firstlight_replicas_following')).toEqual([2])
    expect(value('firstlight_replicas_away')).toEqual([1])
    expect(value('firstlight_replicas_bookings')).toEqual([8])
    expect(
      exposition({
        digests: [],
        rollups: [],
        gateway: { ...gateway, own: { ...gateway.own, replicas: undefined, replicasUp: undefined } },
      }),
    ).not.toMatch(/firstlight_replicas_\w+ \d/)
  })

  it('the text of /metrics counts notes of decisions as in response headers', () => {
    expect(value('firstlight_notes_total', { cluster: 'paris', note: 'fallback=object_unreachable' })).toEqual([1])
    expect(value('firstlight_notes_total', { note: 'failover=lyon:no_engine' })).toEqual([1])
    expect(value('firstlight_notes_total')).toHaveLength(2)
  })

  it('the text of /metrics counts decisions by policy and by the policy they replaced', () => {
    expect(value('firstlight_decisions_total', { policy: 'predicted', fallback: '' })).toEqual([9])
    expect(value('firstlight_decisions_total', { fallback: 'kv_aware' })).toEqual([1])
    expect(value('firstlight_retries_total')).toEqual([2])
    expect(value('firstlight_refusals_total', { reason: 'engines_full' })).toEqual([4])
    expect(value('firstlight_placements_total', { placement: 'split' })).toEqual([1])
  })

  it('the text of /metrics in OpenMetrics has another name of counters, decimal bounds, exemplars and an end', () => {
    const exemplars = new Exemplars()
    const trace = { traceId: 'f'.repeat(32), spanId: 'e'.repeat(16), parentId: null, engineSpanId: 'x', sampled: true }
    exemplars.add(record({ stages: { ttft: 300 }, durationMs: 9_000_000 }), trace)
    const text = exposition({ ...input, exemplars: exemplars.list() })
    const exemplar = / # \{trace_id="f{32}",span_id="e{16}"\} (\S+) (\S+)$/
    const marked = text.split('\n').filter((line) => exemplar.test(line))
    expect(
      marked.map((line) => [/^(\w+)\{.*le="([^"]*)"\}/.exec(line)!.slice(1), exemplar.exec(line)!.slice(1)]),
    ).toEqual([
      [
        ['gen_ai_server_time_to_first_token_seconds_bucket', '0.5'],
        ['0.3', '1800000000.3'],
      ],
      [
        ['gen_ai_server_request_duration_seconds_bucket', '+Inf'],
        ['9000', '1800009000'],
      ],
    ])
    const plain = text
      .replace(/# EOF\n$/, '')
      .replaceAll('\\"', '"')
      .replaceAll(/^# HELP (\S+) (.*)\n# TYPE \S+ counter$/gm, '# HELP $1_total $2\n# TYPE $1_total counter')
      .replaceAll(/le="(\d+)\.0"/g, 'le="$1"')
      .replaceAll(new RegExp(exemplar.source, 'gm'), '')
    expect(plain).toBe(exposition(input))
  })

  it('the text of /metrics puts durations into buckets of seconds', () => {
    expect(value('gen_ai_server_time_to_first_token_seconds_count')).toBeUndefined()
    const buckets = families.get('gen_ai_server_time_to_first_token_seconds')!.samples
    expect(buckets.find(({ labels }) => labels['le'] === '0.25')?.value).toBe(0)
    expect(buckets.find(({ labels }) => labels['le'] === '0.5')?.value).toBe(2)
    expect(buckets.find(({ name }) => name.endsWith('_sum'))?.value).toBeCloseTo(0.6)
    const stages = new Set(families.get('firstlight_stage_seconds')!.samples.map(({ labels }) => labels['stage']))
    expect(stages).toEqual(new Set(['edge', 'admit', 'prefill_compute']))
  })
})

it('unknown values are left out instead of reported as 0', () => {
  const {
    learned: _,
    hitRate: __,
    queuedPrefillTokens: ___,
    kvFeed: ____,
    ...old
  } = engine({ ttftMs: null, stats: null })
  const families = parseExposition(
    exposition({ digests: [digest({ engines: [old], decisions: [] })], rollups: [], gateway }),
  )
  for (const name of [
    'engine_time_to_first_token_mean_seconds',
    'engine_prefix_cache_hit_ratio',
    'engine_silent_miss',
    'engine_reported_num_requests_running',
    'decisions_total',
  ]) {
    expect(families.has(`firstlight_${name}`)).toBe(false)
  }
})

it('the text is valid for any names of engines, models and clusters', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), (id, pool, cluster) => {
      const rollups = rollupsOf([record({ model: pool, cluster, engine: id })])
      const families = parseExposition(
        exposition({ digests: [digest({ pool, cluster, engines: [engine({ id })] })], rollups, gateway }),
      )
      expect(families.get('firstlight_engine_num_requests')?.samples[0]?.labels).toEqual({
        model: pool,
        cluster,
        engine: id,
      })
    }),
  )
})

it('the number of series is bounded by engines and fixed lists', () => {
  const rollups = new Rollups()
  for (let at = 0; at < 6_000; at++) rollups.record(record({ engine: `engine-${at}` }))
  expect(rollups.groups().length).toBeLessThanOrEqual(5_001)
  expect(rollups.groups().reduce((sum, { counts }) => sum + counts['requests:complete']!, 0)).toBe(6_000)
})
