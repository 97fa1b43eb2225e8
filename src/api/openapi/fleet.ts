/** State of the gateway, its pools and other gateways. */
import * as z from 'zod/mini'
import type { CapacityError, RoleCapacity } from '../../core/contract/pool-capacity.ts'
import type { ReplicaDigest } from '../../core/contract/pool-digest.ts'
import type { RegionStatus } from '../../core/contract/region-status.ts'
import type { PoolLookupCounts } from '../../origin/lmcache/cache-lookups.ts'
import { engine, unknownEngine } from './engine.ts'
import { anyObject, component, described, flag, milliseconds, number, text, texts } from './fields.ts'
import type { View, ViewOf } from './view.ts'

const capacity = z.object({
  role: text,
  replicas: number,
  needed_engines: number,
  requests_per_s: number,
  spare_requests_per_s: z.nullable(number),
  exhaustion_s: z.nullable(number),
})

export type CapacityView = ViewOf<typeof capacity, RoleCapacity>

const capacityError = described(
  'Minutes of the last hour in which requests came, and in how many of them the capacity was wrong.',
  z.object({ minutes: number, overstated: number, understated: number }),
)

export type CapacityErrorView = ViewOf<typeof capacityError, CapacityError>

const region = described(
  'Digest of the gateway behind this pool. null: none yet.',
  z.nullable(
    z.object({
      reachable: flag,
      age_ms: number,
      rtt_ms: number,
      blocking_match: flag,
      engines: number,
      requests: number,
      queued: number,
      expected_ttft_ms: z.nullable(number),
    }),
  ),
)

export type RegionView = ViewOf<typeof region, RegionStatus | null>

const lookups = described(
  'LMCache lookups. null: the pool has none.',
  z.nullable(
    z.object({
      found: z.optional(number),
      empty: z.optional(number),
      late: z.optional(number),
      failed: z.optional(number),
      skipped: described('By reason.', z.record(z.string(), number)),
    }),
  ),
)

export type LookupsView = ViewOf<typeof lookups, PoolLookupCounts | null>

const pool = component(
  'Pool',
  z.object({
    cluster: text,
    region: z.nullable(text),
    model: text,
    aliases: texts,
    adapters: texts,
    policy: text,
    slo: described(
      'Latency objectives.',
      z.nullable(
        z.object({
          ttft_ms: z.nullable(number),
          ttft_ms_per_1k_tokens: z.nullable(number),
          itl_ms: z.nullable(number),
        }),
      ),
    ),
    reachable: described('false: the state of the pool could not be read.', flag),
    bookings: z.nullable(number),
    queue: z.optional(described('Requests that wait for room.', z.object({ requests: number, oldest_ms: number }))),
    capacity: z.optional(described('Capacity in terms of `slo`, by role of the engines.', z.array(capacity))),
    capacity_error: z.optional(capacityError),
    at: z.optional(milliseconds),
    seq: z.optional(number),
    config_version: z.optional(number),
    engines: z.array(z.union([engine, unknownEngine])),
    gateway: z.optional(region),
    region_engines: z.optional(
      described(
        'Engines at the gateway behind this pool, each with its cluster there. null: it did not answer.',
        z.nullable(z.array(anyObject)),
      ),
    ),
    lookups: z.optional(lookups),
  }),
)

export type PoolView = View<typeof pool>

const replica = z.object({ host: text, id: text, state: text, bookings: number })

export type ReplicaView = ViewOf<typeof replica, ReplicaDigest>

export const fleet = component(
  'Fleet',
  z.object({
    version: text,
    config_version: number,
    started_at: milliseconds,
    draining: flag,
    config_refused_at: z.optional(
      described('When a newer configuration was refused, milliseconds since the epoch.', number),
    ),
    replicas: z.optional(described('Replicas that share bookings.', z.array(replica))),
    shared: z.optional(described('Workers: state is shared by the isolates of this edge.', flag)),
    isolates: z.optional(described('Workers: isolates that reported.', number)),
    placement: z.optional(described('Workers: `cf-placement` of the request.', text)),
    pools: z.array(pool),
  }),
)

export type FleetView = View<typeof fleet>
