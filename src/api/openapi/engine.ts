/** Engines of the fleet. */
import * as z from 'zod/mini'
import type { EngineDigest } from '../../core/contract/pool-digest.ts'
import { component, described, flag, milliseconds, number, text, texts } from './fields.ts'
import type { View, ViewOf } from './view.ts'

const affected = z.object({
  requests: number,
  keys: number,
  models: number,
  key_names: z.optional(texts),
  model_names: z.optional(texts),
})

const stats = component(
  'EngineStats',
  z.object({
    running: number,
    waiting: number,
    kv_usage: z.nullable(number),
    block_tokens: z.nullable(number),
    cache_blocks: z.nullable(number),
    prefix_caching: z.nullable(flag),
    adapters: z.nullable(z.object({ running: texts, max: z.nullable(number) })),
    work: z.optional(
      described(
        'Tokens and steps since the start of the engine.',
        z.object({ total: number, live: z.nullable(number), prefill: z.nullable(number) }),
      ),
    ),
    age_ms: number,
  }),
)

const learned = z.object({
  cost_model: described(
    'Prefill: seconds, seconds per uncached token, seconds per pair of tokens.',
    z.object({ fixed_s: number, per_token_s: number, per_pair_s: number }),
  ),
  samples: number,
  confidence: number,
  cache_blocks: z.nullable(number),
  ttft_error: z.nullable(number),
  step_limit_ms: z.optional(number),
  places: z.optional(number),
  predicted_cached_tokens: number,
  actual_cached_tokens: number,
  cached_tokens_error: number,
  restarts: number,
  silent_miss: z.nullable(described('Likely causes of predicted cache hits that are never reported.', texts)),
  warmth: number,
})

export const engine = component(
  'Engine',
  z.object({
    id: text,
    server: z.optional(described('Server of which the engine is a data-parallel rank.', text)),
    ignores_ranks: z.optional(described('The server ignores the choice of a rank, so its ranks are one engine.', flag)),
    role: z.enum(['any', 'prefill', 'decode', 'encode']),
    weight: number,
    available: described('The engine accepts new requests.', flag),
    healthy: flag,
    problem: z.optional(described('Why the last probe failed.', text)),
    last_failure: z.optional(described('Last failed attempt.', z.object({ failure: text, at: milliseconds }))),
    condition: z.optional(z.enum(['well', 'suspect', 'wedged', 'unreachable', 'faulty', 'saturated', 'slow'])),
    condition_since: z.optional(milliseconds),
    hurt: z.optional(
      described(
        'Requests that wait there for a first token. `gave_up`: their clients have left. Absent: it is `well`.',
        z.extend(affected, { gave_up: z.optional(affected) }),
      ),
    ),
    changes: z.optional(
      described(
        'Last changes of its state, oldest first: health, circuit, use (draining, asleep, paused) and condition.',
        z.array(z.object({ at: milliseconds, aspect: text, to: text, reason: z.optional(text) })),
      ),
    ),
    abandoned_total: z.optional(described('Requests whose client left before the first token.', number)),
    residents: z.optional(
      described(
        'Adapters that the gateway has loaded on demand on the server, and counts of loads, unloads and failures.',
        z.object({ loaded: texts, loads: number, unloads: number, failures: number }),
      ),
    ),
    loaded_adapters: z.optional(described('Adapters that the engine reports.', texts)),
    rescued_total: z.optional(described('Requests that another engine got because this one was wedged.', number)),
    compared: z.optional(
      described(
        'Answers of the semantic canary.',
        z.object({ total: number, disagreed: number, stands_out_since: z.nullable(milliseconds) }),
      ),
    ),
    context_tokens: z.optional(described('Longest prompt with output.', number)),
    engine_version: z.optional(described('Version that the engine reports.', text)),
    draining: flag,
    move_at: z.optional(milliseconds),
    asleep: flag,
    paused: z.optional(z.object({ keeps: flag, weights: z.nullable(text) })),
    circuit: z.enum(['closed', 'open', 'half_open']),
    requests: described('Requests of this gateway in flight.', number),
    active_blocks: z.optional(number),
    queued_prefill_s: z.optional(described('Predicted time until the queued prompts are computed.', number)),
    queued_prefill_tokens: z.optional(number),
    queued_prefill_work: z.optional(number),
    cached_blocks: z.optional(number),
    cache_blocks: z.optional(z.nullable(number)),
    ttft_ms: z.nullable(number),
    recent_ttft_ms: z.optional(z.array(number)),
    hit_rate: z.optional(z.nullable(number)),
    requests_total: number,
    failures_total: number,
    ejections_withheld: z.optional(number),
    counted_before: z.optional(z.object({ requests: number, failures: number })),
    stats: z.optional(z.nullable(described('Load that the engine reports.', stats))),
    learned: z.optional(described('Learned speed and cache of the engine.', learned)),
    kv_feed: z.optional(
      described(
        'KV events of the engine.',
        z.object({ state: text, changes: number, resyncs: number, lag_ms: number }),
      ),
    ),
  }),
)

export type EngineView = ViewOf<typeof engine, EngineDigest>

/** An engine whose pool state could not be read. */
export const unknownEngine = component('UnknownEngine', z.object({ id: text, role: text, available: z.null() }))

export type UnknownEngineView = View<typeof unknownEngine>
