/** The view as data, with the gateway's field names and units. */
import { roleOf } from '../../dashboard/engine-state.ts'
import type { EngineFigures, PoolFigures, ViewFigures } from './figures.ts'
import { type Selection, sorted } from './selection.ts'

export function viewJson(
  view: ViewFigures,
  { url, selection }: { readonly url: string; readonly selection: Selection },
) {
  const { version, config_version, started_at, at, draining, replicas = [] } = view.view
  return {
    name: 'top',
    gateway: { url, version, config_version, started_at, at, draining, replicas },
    all: poolJson(view.fleet),
    pools: view.pools.map((figures) => ({
      cluster: figures.pool?.cluster,
      model: figures.pool?.model,
      policy: figures.pool?.policy,
      reachable: figures.pool?.reachable,
      gateway: figures.pool?.gateway,
      ...poolJson(figures),
    })),
    engines: sorted(view, selection).map(engineJson),
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

const engineJson = ({ pool, engine, text: message, growth, notes }: EngineFigures) => ({
  cluster: pool.cluster,
  model: pool.model,
  id: engine.id,
  role: roleOf({ pool, engine }),
  state: message,
  requests: engine.requests ?? null,
  requests_per_s: growth?.requestsPerS ?? null,
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
