/** What was shown, as data. Names as on the gateway's wire, units in them. */
import { type Seen, sorted, type Wish } from './draw.ts'
import { roleOf } from '../../../dashboard/engine-state.ts'
import type { EngineFigures, PoolFigures } from './figures.ts'

export function seenJson(seen: Seen, { url, wish }: { readonly url: string; readonly wish: Wish }) {
  const { version, config_version, started_at, at, draining, replicas = [] } = seen.view
  return {
    name: 'top',
    gateway: { url, version, config_version, started_at, at, draining, replicas },
    all: poolJson(seen.fleet),
    pools: seen.pools.map((figures) => ({ cluster: figures.pool?.cluster, model: figures.pool?.model, policy: figures.pool?.policy, reachable: figures.pool?.reachable, gateway: figures.pool?.gateway, ...poolJson(figures) })),
    engines: sorted(seen, wish).map(engineJson),
  }
}

const poolJson = (figures: PoolFigures) => ({
  engines: figures.engines,
  engines_up: figures.up,
  requests: figures.running,
  requests_per_s: figures.requestsPerS,
  queued_prefill_tokens: figures.queuedTokens,
  longest_queue_s: figures.longestS,
  hit_rate: figures.hitRate,
  ttft_p50_ms: figures.ttftP50Ms,
  ttft_p99_ms: figures.ttftP99Ms,
  ttfts: figures.ttfts,
})

const engineJson = ({ pool, engine, says, grown, notes }: EngineFigures) => ({
  cluster: pool.cluster,
  model: pool.model,
  id: engine.id,
  role: roleOf({ pool, engine }),
  state: says,
  requests: engine.requests ?? null,
  requests_per_s: grown?.requestsPerS ?? null,
  queued_prefill_tokens: engine.queued_prefill_tokens ?? null,
  queued_prefill_s: engine.queued_prefill_s ?? null,
  active_blocks: engine.active_blocks ?? null,
  cached_blocks: engine.cached_blocks ?? null,
  cache_blocks: engine.cache_blocks ?? null,
  hit_rate: engine.hit_rate ?? null,
  ttft_ms: engine.ttft_ms ?? null,
  requests_total: engine.requests_total ?? null,
  failures_total: engine.failures_total ?? null,
  notes,
})
