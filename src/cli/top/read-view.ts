/** Validates views. Network data is drawn only if it has the expected shape. */
import * as z from 'zod/mini'
import { renderPath } from '../../config/path.ts'
import type { View } from '../../dashboard/wire.ts'

const maybe = z.nullish(z.number())

const counts = z.looseObject({ requests: z.number() })

const engine = z.looseObject({
  id: z.string(),
  role: z.string(),
  available: z.nullable(z.boolean()),
  healthy: z.optional(z.boolean()),
  draining: z.optional(z.boolean()),
  asleep: z.optional(z.boolean()),
  circuit: z.optional(z.string()),
  weight: maybe,
  requests: maybe,
  active_blocks: maybe,
  queued_prefill_s: maybe,
  queued_prefill_tokens: maybe,
  cached_blocks: maybe,
  cache_blocks: maybe,
  ttft_ms: maybe,
  hit_rate: maybe,
  requests_total: maybe,
  failures_total: maybe,
  counted_before: z.optional(counts),
  stats: z.nullish(z.looseObject({ running: z.number(), waiting: z.number(), kv_usage: maybe, age_ms: z.number() })),
  learned: z.optional(z.looseObject({ restarts: maybe, silent_miss: z.nullish(z.array(z.string())) })),
  kv_feed: z.optional(z.looseObject({ state: z.string() })),
  recent_ttft_ms: z.optional(z.array(z.number())),
})

const region = z.looseObject({
  reachable: z.boolean(),
  age_ms: z.number(),
  rtt_ms: z.number(),
  blocking_match: z.boolean(),
  engines: z.number(),
  requests: z.number(),
  queued: z.number(),
  expected_ttft_ms: z.nullable(z.number()),
})

const pool = z.looseObject({
  cluster: z.string(),
  model: z.string(),
  policy: z.string(),
  reachable: z.boolean(),
  bookings: z.nullable(z.number()),
  at: maybe,
  gateway: z.nullish(region),
  engines: z.array(engine),
})

const replica = z.looseObject({ host: z.string(), state: z.string() })

const view = z.looseObject({
  version: z.string(),
  started_at: z.number(),
  draining: z.boolean(),
  at: z.number(),
  pools: z.array(pool),
  replicas: z.optional(z.array(replica)),
})

/** Parses a view. Throws an Error that names the first invalid field. */
export function readView(value: unknown): View {
  const read = view.safeParse(value)
  // All fields that are drawn have been validated. The rest is passed through.
  if (read.success) return read.data as unknown as View
  throw new Error(`${renderPath(read.error.issues[0]!.path) || 'it'} is not valid in a gateway’s view`)
}
