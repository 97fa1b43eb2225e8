/** Columns of the tables of pools and engines. Unknown values are a dash, never zero. */
import { type EngineState, isGateway, roleOf } from '../../dashboard/engine-state.ts'
import { count, ms, number, percent, seconds } from '../../dashboard/format.ts'
import { regionText } from '../../dashboard/region.ts'
import { type EngineFigures, isSevere, type PoolFigures } from './figures.ts'
import type { Tone } from './spans.ts'
import type { Column } from './table.ts'

const poolName = ({ cluster, model }: { readonly cluster: string; readonly model: string }): string =>
  `${cluster} ${model}`

const plain = (text: string) => ({ text })

const POOL_COLUMNS: readonly Column<PoolFigures>[] = [
  { head: 'POOL', rank: 0, minCells: 10, left: true, of: ({ pool }) => plain(pool === null ? 'all' : poolName(pool)) },
  { head: 'UP', rank: 0, minCells: 5, of: upOf },
  { head: 'RUNNING', rank: 0, minCells: 7, of: ({ running }) => plain(count(running)) },
  { head: 'REQ/S', rank: 2, minCells: 6, of: ({ requestsPerS }) => plain(rate(requestsPerS)) },
  { head: 'QUEUE', rank: 4, minCells: 6, of: ({ queuedTokens }) => plain(tokens(queuedTokens)) },
  { head: 'WAIT', rank: 3, minCells: 6, of: ({ longestS }) => plain(seconds(longestS)) },
  { head: 'HIT', rank: 3, minCells: 4, of: ({ hitRate }) => plain(percent(hitRate)) },
  { head: 'TTFT P50', rank: 1, minCells: 8, of: ({ ttftP50Ms }) => plain(ms(ttftP50Ms)) },
  { head: 'P99', rank: 1, minCells: 7, of: ({ ttftP99Ms }) => plain(ms(ttftP99Ms)) },
  { head: 'OF LAST', rank: 6, minCells: 7, of: ({ ttfts }) => plain(count(ttfts)) },
  {
    head: 'POLICY',
    rank: 5,
    minCells: 9,
    left: true,
    of: ({ pool }) => plain(pool === null || isGateway(pool) ? '' : pool.policy),
  },
]

const BEHIND: Column<PoolFigures> = {
  head: 'BEHIND ITS GATEWAY',
  rank: 2,
  minCells: 0,
  left: true,
  rest: true,
  of: behindOf,
}

/** `regional`: includes clusters behind other gateways. */
export const poolColumns = ({ regional }: { readonly regional: boolean }): readonly Column<PoolFigures>[] =>
  regional ? [...POOL_COLUMNS, BEHIND] : POOL_COLUMNS

function behindOf({ pool }: PoolFigures) {
  if (pool === null || !isGateway(pool)) return plain('')
  const isWell = pool.gateway?.reachable === true && pool.gateway.blocking_match
  return { text: regionText(pool).join(', '), tone: isWell ? null : ('warn' as const) }
}

function upOf({ pool, up, engines }: PoolFigures) {
  if (pool?.reachable === false) return { text: 'unreachable', tone: 'bad' as const }
  return { text: `${up}/${engines}`, tone: up === engines ? null : up === 0 ? ('bad' as const) : ('warn' as const) }
}

interface Variety {
  /** Engines of several pools, so each line names its pool. */
  readonly many: boolean
  /** Roles differ. */
  readonly split: boolean
}

export const engineColumns = (variety: Variety): readonly Column<EngineFigures>[] =>
  ENGINE_COLUMNS.filter(({ when }) => when === undefined || variety[when])

const ENGINE_COLUMNS: readonly (Column<EngineFigures> & { readonly when?: keyof Variety })[] = [
  {
    head: 'ENGINE',
    rank: 0,
    minCells: 10,
    left: true,
    of: ({ engine, state }) => ({ text: engine.id, tone: state === 'up' ? null : 'strong' }),
  },
  { head: 'POOL', rank: 4, minCells: 8, left: true, of: ({ pool }) => plain(poolName(pool)), when: 'many' },
  { head: 'ROLE', rank: 8, minCells: 7, left: true, of: (line) => plain(roleOf(line)), when: 'split' },
  {
    head: 'STATE',
    rank: 0,
    minCells: 9,
    left: true,
    of: ({ state, text }) => ({ text, tone: toneOf(state) }),
  },
  { head: 'RUN', rank: 0, minCells: 3, of: ({ engine }) => plain(count(engine.requests)) },
  { head: 'REQ/S', rank: 5, minCells: 5, of: ({ growth }) => plain(rate(growth?.requestsPerS)) },
  { head: 'QUEUE', rank: 6, minCells: 6, of: ({ engine }) => plain(tokens(engine.queued_prefill_tokens)) },
  { head: 'WAIT', rank: 1, minCells: 6, of: ({ engine }) => plain(seconds(engine.queued_prefill_s)) },
  { head: 'HIT', rank: 2, minCells: 4, of: ({ engine }) => plain(percent(engine.hit_rate)) },
  { head: 'TTFT', rank: 2, minCells: 7, of: ({ engine }) => plain(ms(engine.ttft_ms)) },
  { head: 'LIVE', rank: 9, minCells: 4, of: ({ engine }) => plain(count(engine.active_blocks)) },
  { head: 'CACHED', rank: 7, minCells: 7, of: ({ engine }) => plain(cached(engine)) },
  { head: 'KV', rank: 11, minCells: 4, of: ({ engine }) => plain(percent(engine.stats?.kv_usage)) },
  { head: 'WAITING', rank: 12, minCells: 7, of: ({ engine }) => plain(count(engine.stats?.waiting)) },
  { head: 'TOTAL', rank: 13, minCells: 7, of: ({ engine }) => plain(count(engine.requests_total)) },
  {
    head: 'FAILED',
    rank: 10,
    minCells: 6,
    of: ({ engine, growth }) => ({
      text: count(engine.failures_total),
      tone: (growth?.failures ?? 0) > 0 ? 'bad' : null,
    }),
  },
  {
    head: 'NOTE',
    rank: 3,
    minCells: 0,
    left: true,
    rest: true,
    of: ({ notes }) => ({ text: notes.join('; '), tone: 'warn' }),
  },
]

const toneOf = (state: EngineState): Tone => (isSevere(state) ? 'bad' : state === 'up' ? 'good' : 'warn')

function cached({ cached_blocks: held, cache_blocks: max }: EngineFigures['engine']): string {
  return max === null || max === undefined ? count(held) : `${count(held)}/${count(max)}`
}

/** One decimal place, so that the column width is stable. */
export const rate = (perS: number | null | undefined): string =>
  perS === null || perS === undefined || perS >= 100 ? count(perS) : perS.toFixed(1)

/** Formats tokens in at most seven characters. */
function tokens(value: number | null | undefined): string {
  return value !== null && value !== undefined && value >= 1e6 ? `${number(value / 1e6)}M` : count(value)
}
