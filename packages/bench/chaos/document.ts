/** Configurations of the gateways of a chaos run: a constant one, or another one for the same engines each time. */

export const ADMIN_KEY = 'chaos-admin-key-of-no-use-elsewhere'
/** Model of the requests. The pool may have another name. */
export const MODEL = 'sim'
/** All names of the pool. The second one is an adapter, so engines serve both. */
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

/** Key of requests whose number at the same time is limited. */
export const LIMITED_KEY = 'chaos-limited-key-of-no-use-elsewhere'
export const LIMITED_CONCURRENT = 3
const limited = { name: 'limited', secret: LIMITED_KEY, limits: { concurrent: LIMITED_CONCURRENT } }

/** Key that clients use while `turn` is the newest configuration. The two configurations after it accept it too. */
export const keyOf = (turn: number): string => `chaos-key-${turn}-of-no-use-elsewhere`

// Most engines have faults at times, and a stream may meet several of them.
const retry = { share: 1, min_per_s: 1000, mid_stream: 'replay', mid_stream_max: 5 }
// Longer than the queues of an overload on the one engine without faults, which is healthy.
const limits = { first_byte_ms: 8000, prefill_ms: 4000, idle_ms: 3000, native_ms: 10_000, answer_ms: 20_000 }

const REPORTS_S = 60

function documentWith(pool: object, rest: object): object {
  return {
    admin: { secret: ADMIN_KEY },
    // Ends are counted. Reports are kept for less than the time until memory is warm.
    ttft: { enabled: true, ttl_s: REPORTS_S },
    clusters: [{ id: 'chaos', pools: [pool] }],
    ...rest,
  }
}

/**
 * Keys of this configuration and the two before, and the limited one. Clients send the key of the one before, and a
 * request may still be on its way while the next configuration is adopted.
 */
const keysOf = (turn: number): object[] => [
  ...[turn, turn - 1, turn - 2].map((at) => ({ name: `turn-${at}`, secret: keyOf(at) })),
  limited,
]

/** Hedging of some pools. A fixed time is below `limits.heartbeat_ms`, after which nothing is hedged. */
const HEDGES = ['auto', 250] as const

export function plainDocument(urls: readonly string[], hedge: 'auto' | 'off' = 'off'): object {
  const engines = urls.map((url, i) => ({ id: `e${i}`, url }))
  // Milliseconds: a newer run is a newer configuration.
  return documentWith(
    { model: MODEL, stats_interval_ms: 1000, limits, retry: { ...retry, hedge_ms: hedge }, engines },
    { keys: keysOf(1), version: Date.now(), log: { level: 'info' } },
  )
}

/** The edge waits while a region finds a silent engine and asks others, which may be silent, too. */
const edgeLimits = {
  ...limits,
  connect_ms: 500,
  first_byte_ms: 3 * limits.first_byte_ms,
  idle_ms: 10 * limits.idle_ms,
}

/** Configuration of the edge in front of regions, which share the engines. */
export function edgeDocument(urls: readonly string[], key: string): object {
  const models = [{ model: MODEL, limits: edgeLimits, lease_ms: 3000, circuit: { open_ms: 500 } }]
  return {
    ...plainDocument(['http://127.0.0.1:1']),
    clusters: urls.map((url, i) => ({ id: `r${i}`, gateway: { url, key, digest_interval_ms: 500, models } })),
  }
}

/** Configuration number `turn`: it changes the engines, the pool's name, policy, limits and roles, and the keys. */
export function changedDocument(urls: readonly string[], turn: number, random: () => number): object {
  const split = random() < 0.3
  // The first engine, which has no faults, is never removed, and has room for the requests of all others.
  const gone = 1 + Math.floor(random() * urls.length * 1.5)
  const engines = urls.flatMap((url, i) => {
    if (i === gone) return []
    return [
      {
        id: `e${i}`,
        url,
        ...(split ? { role: SPLIT_ROLES[i % SPLIT_ROLES.length] } : {}),
        ...(random() < 0.3 && i > 0 ? { max_in_flight: 4 } : {}),
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
      first_byte_ms: 8000 + Math.floor(random() * 2000),
      idle_ms: 2500 + Math.floor(random() * 1500),
    },
    ...(split ? { split: { connector: 'nixl', mode: 'always' } } : {}),
    engines,
    retry: random() < 0.5 ? retry : { ...retry, hedge_ms: HEDGES[Math.floor(random() * HEDGES.length)] },
  }
  return documentWith(pool, {
    keys: keysOf(turn),
    version: turn,
    log: { level: 'info' },
    limits: { heartbeat_ms: 300, body_bytes: 8192 + Math.floor(random() * 2048) },
  })
}

/** Cluster and model of the only pool, as keys of replicas name it. */
export const poolOf = (document: object): string => {
  const { clusters } = document as { readonly clusters: readonly { id: string; pools: readonly { model: string }[] }[] }
  const [{ id, pools }] = clusters as [(typeof clusters)[number]]
  return `${id}/${pools[0]!.model}`
}
