/**
 * What the gateway under soak is configured with: always the same, or each time another way of using the same engines.
 */

export const ADMIN_KEY = 'soak-admin-key-of-no-use-elsewhere'
/** What clients ask for. The pool may be called otherwise. */
export const MODEL = 'sim'
/** Every name a pool has at some time: the second one is an adapter's, so that engines know both. */
export const POOLS: readonly string[] = [MODEL, 'next']
const SPLIT_ROLES = ['any', 'prefill', 'decode', 'decode'] as const
const POLICIES = [
  'predicted',
  'active_blocks',
  'ttft',
  'lmetric',
  'prefix',
  'round_robin',
  'least_loaded',
  'power_of_two',
  'random',
  'session',
] as const

/** Which key clients use while `turn` is the newest configuration. The one before still knows it. */
export const keyOf = (turn: number): string => `soak-key-${turn}-of-no-use-elsewhere`

const limits = { first_byte_ms: 4000, prefill_ms: 2000, idle_ms: 2000, native_ms: 10_000 }

function documentWith(pool: object, rest: object): object {
  return {
    admin: { secret: ADMIN_KEY },
    // Ends are counted.
    ttft: { enabled: true },
    clusters: [{ id: 'soak', pools: [pool] }],
    ...rest,
  }
}

export function plainDocument(urls: readonly string[]): object {
  const engines = urls.map((url, i) => ({ id: `e${i}`, url }))
  // Milliseconds: a newer run is a newer configuration.
  return documentWith(
    { model: MODEL, stats_interval_ms: 1000, limits, engines },
    { open: true, version: Date.now(), log: { level: 'silent' } },
  )
}

/** What stands before regions, which share the engines. */
export function edgeDocument(urls: readonly string[], key: string): object {
  const models = [{ model: MODEL, limits: { ...limits, connect_ms: 500 }, lease_ms: 3000, circuit: { open_ms: 500 } }]
  return {
    ...plainDocument(['http://127.0.0.1:1']),
    clusters: urls.map((url, i) => ({ id: `r${i}`, gateway: { url, key, digest_interval_ms: 500, models } })),
  }
}

/**
 * Configuration number `turn`: engines are gone or back, the pool has another name, policy, limits and roles, and the
 * keys have moved on.
 */
export function changedDocument(urls: readonly string[], turn: number, random: () => number): object {
  const split = random() < 0.3
  // The first engine is never taken away: it is the one without faults.
  const gone = 1 + Math.floor(random() * urls.length * 1.5)
  const engines = urls.flatMap((url, i) => {
    if (i === gone) return []
    return [
      {
        id: `e${i}`,
        url,
        ...(split ? { role: SPLIT_ROLES[i % SPLIT_ROLES.length] } : {}),
        ...(random() < 0.3 ? { max_in_flight: 4 } : {}),
      },
    ]
  })
  const renamed = random() < 0.4
  const pool = {
    model: renamed ? POOLS[1] : MODEL,
    ...(renamed ? { aliases: [MODEL] } : {}),
    policy: POLICIES[Math.floor(random() * POLICIES.length)],
    stats_interval_ms: 1000,
    lease_ms: 3000,
    observe_share: random(),
    limits: {
      ...limits,
      first_byte_ms: 1000 + Math.floor(random() * 3000),
      idle_ms: 500 + Math.floor(random() * 1500),
    },
    ...(split ? { split: { connector: 'nixl', mode: 'always' } } : {}),
    engines,
  }
  const keys = [turn, turn - 1].map((at) => ({ name: `turn-${at}`, secret: keyOf(at) }))
  return documentWith(pool, {
    keys,
    version: turn,
    log: { level: 'info' },
    limits: { heartbeat_ms: 300, body_bytes: 1024 + Math.floor(random() * 2048) },
  })
}
