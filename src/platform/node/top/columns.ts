/** The two tables: pools, and engines. What is not known is a dash, never a zero. */
import type { EngineState } from '../../../dashboard/engine-state.ts'
import { count, ms, number, percent, seconds } from '../../../dashboard/format.ts'
import { isGateway, roleOf } from '../../../dashboard/engine-state.ts'
import { regionSays } from '../../../dashboard/region.ts'
import { isGrave, type EngineFigures, type PoolFigures } from './figures.ts'
import type { Tone } from './spans.ts'
import type { Column } from './table.ts'

export const poolName = ({ cluster, model }: { readonly cluster: string; readonly model: string }): string => `${cluster} ${model}`

const plain = (text: string) => ({ text })

const POOL_COLUMNS: readonly Column<PoolFigures>[] = [
  { head: 'POOL', rank: 0, least: 10, left: true, of: ({ pool }) => plain(pool === null ? 'all' : poolName(pool)) },
  { head: 'UP', rank: 0, least: 5, of: upOf },
  { head: 'RUNNING', rank: 0, least: 7, of: ({ running }) => plain(count(running)) },
  { head: 'REQ/S', rank: 2, least: 6, of: ({ requestsPerS }) => plain(rate(requestsPerS)) },
  { head: 'QUEUE', rank: 4, least: 6, of: ({ queuedTokens }) => plain(tokens(queuedTokens)) },
  { head: 'WAIT', rank: 3, least: 6, of: ({ longestS }) => plain(seconds(longestS)) },
  { head: 'HIT', rank: 3, least: 4, of: ({ hitRate }) => plain(percent(hitRate)) },
  { head: 'TTFT P50', rank: 1, least: 8, of: ({ ttftP50Ms }) => plain(ms(ttftP50Ms)) },
  { head: 'P99', rank: 1, least: 7, of: ({ ttftP99Ms }) => plain(ms(ttftP99Ms)) },
  { head: 'OF LAST', rank: 6, least: 7, of: ({ ttfts }) => plain(count(ttfts)) },
  { head: 'POLICY', rank: 5, least: 9, left: true, of: ({ pool }) => plain(pool === null || isGateway(pool) ? '' : pool.policy) },
]

const BEHIND: Column<PoolFigures> = { head: 'BEHIND ITS GATEWAY', rank: 2, least: 0, left: true, rest: true, of: behindOf }

/** `regional`: of clusters behind other gateways, too. */
export const poolColumns = ({ regional }: { readonly regional: boolean }): readonly Column<PoolFigures>[] => (regional ? [...POOL_COLUMNS, BEHIND] : POOL_COLUMNS)

function behindOf({ pool }: PoolFigures) {
  if (pool === null || !isGateway(pool)) return plain('')
  const isWell = pool.gateway?.reachable === true && pool.gateway.cut_alike
  return { text: regionSays(pool).join(', '), tone: isWell ? null : ('warn' as const) }
}

function upOf({ pool, up, engines }: PoolFigures) {
  if (pool?.reachable === false) return { text: 'out of reach', tone: 'bad' as const }
  return { text: `${up}/${engines}`, tone: up === engines ? null : up === 0 ? ('bad' as const) : ('warn' as const) }
}

/** `many`: of several pools, so that the line must say whose it is. `split`: roles differ. */
export function engineColumns({ many, split }: { readonly many: boolean; readonly split: boolean }): readonly Column<EngineFigures>[] {
  const all: readonly (Column<EngineFigures> & { readonly when?: boolean })[] = [
    { head: 'ENGINE', rank: 0, least: 10, left: true, of: ({ engine, state }) => ({ text: engine.id, tone: state === 'up' ? null : 'strong' }) },
    { head: 'POOL', rank: 4, least: 8, left: true, of: ({ pool }) => plain(poolName(pool)), when: many },
    { head: 'ROLE', rank: 8, least: 7, left: true, of: (line) => plain(roleOf(line)), when: split },
    { head: 'STATE', rank: 0, least: 9, left: true, of: ({ state, says }) => ({ text: says, tone: toneOf(state) }) },
    { head: 'RUN', rank: 0, least: 3, of: ({ engine }) => plain(count(engine.requests)) },
    { head: 'REQ/S', rank: 5, least: 5, of: ({ grown }) => plain(rate(grown?.requestsPerS)) },
    { head: 'QUEUE', rank: 6, least: 6, of: ({ engine }) => plain(tokens(engine.queued_prefill_tokens)) },
    { head: 'WAIT', rank: 1, least: 6, of: ({ engine }) => plain(seconds(engine.queued_prefill_s)) },
    { head: 'HIT', rank: 2, least: 4, of: ({ engine }) => plain(percent(engine.hit_rate)) },
    { head: 'TTFT', rank: 2, least: 7, of: ({ engine }) => plain(ms(engine.ttft_ms)) },
    { head: 'LIVE', rank: 9, least: 4, of: ({ engine }) => plain(count(engine.active_blocks)) },
    { head: 'CACHED', rank: 7, least: 7, of: ({ engine }) => plain(cached(engine)) },
    { head: 'KV', rank: 11, least: 4, of: ({ engine }) => plain(percent(engine.stats?.kv_usage)) },
    { head: 'WAITING', rank: 12, least: 7, of: ({ engine }) => plain(count(engine.stats?.waiting)) },
    { head: 'TOTAL', rank: 13, least: 7, of: ({ engine }) => plain(count(engine.requests_total)) },
    { head: 'FAILED', rank: 10, least: 6, of: ({ engine, grown }) => ({ text: count(engine.failures_total), tone: (grown?.failures ?? 0) > 0 ? 'bad' : null }) },
    { head: 'NOTE', rank: 3, least: 0, left: true, rest: true, of: ({ notes }) => ({ text: notes.join('; '), tone: 'warn' }) },
  ]
  return all.filter(({ when = true }) => when)
}

const toneOf = (state: EngineState): Tone => (isGrave(state) ? 'bad' : state === 'up' ? 'good' : 'warn')

function cached({ cached_blocks: held, cache_blocks: most }: EngineFigures['engine']): string {
  return most === null || most === undefined ? count(held) : `${count(held)}/${count(most)}`
}

/** With one digit behind the point, so that it does not jump. */
export const rate = (perS: number | null | undefined): string => (perS === null || perS === undefined || perS >= 100 ? count(perS) : perS.toFixed(1))

/** Tokens in at most seven characters. */
function tokens(value: number | null | undefined): string {
  return value !== null && value !== undefined && value >= 1e6 ? `${number(value / 1e6)}M` : count(value)
}
