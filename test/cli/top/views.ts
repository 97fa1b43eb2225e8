/** Views in the format of a gateway, for drawings. */
import type { Engine, Pool, View } from '../../../src/dashboard/wire.ts'

export const engineOf = (id: string, more: Partial<Engine> = {}): Engine => ({
  id,
  role: 'any',
  weight: 1,
  available: true,
  healthy: true,
  draining: false,
  asleep: false,
  circuit: 'closed',
  requests: 0,
  active_blocks: 0,
  queued_prefill_s: 0,
  queued_prefill_tokens: 0,
  cached_blocks: 0,
  cache_blocks: 512,
  ttft_ms: null,
  hit_rate: null,
  requests_total: 0,
  failures_total: 0,
  stats: null,
  recent_ttft_ms: [],
  ...more,
})

export const poolOf = (engines: readonly Engine[], more: Partial<Pool> = {}): Pool => ({
  cluster: 'paris',
  region: null,
  model: 'qwen',
  aliases: [],
  policy: 'predicted',
  slo: null,
  reachable: true,
  bookings: 0,
  at: 1_000,
  engines,
  ...more,
})

export const viewOf = (pools: readonly Pool[], more: Partial<View> = {}): View => ({
  version: '1.2.3',
  config_version: 1,
  started_at: 0,
  draining: false,
  at: 61_000,
  pools,
  decisions: [],
  ...more,
})
