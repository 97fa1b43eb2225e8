/** An engine joins a fleet under load, in virtual time: its share of the requests, and how late they are. */
import { defaultPool } from '../../replay/src/replay/default-pool.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile, inBlocksOf } from '../../replay/src/replay/engine-profile.ts'
import { keysOf } from '../../replay/src/replay/trace.ts'
import { quantile } from '../../replay/src/replay/statistics.ts'
import { VirtualFleet, type ServedRequest } from './virtual-fleet.ts'

const ENGINES = 3
const BLOCK_TOKENS = 16
const SECOND_MS = 1_000
const JOINS_MS = 180 * SECOND_MS
/** Time after the join that is measured. */
const MEASURED_MS = 60 * SECOND_MS
/** Sessions repeat their prompt, which grows. */
const SESSIONS = 240
const FIRST_TOKENS = 2_000
const GROWTH_TOKENS = 400
const MAX_TURNS = 12
const OUTPUT_TOKENS = 100
const PER_S = 6.5

export interface WarmUp {
  readonly slowStart: number
  /** Share of the requests in the first ten seconds and in the minute after the join, that the new engine got. */
  readonly share10s: number
  readonly share60s: number
  /** Share in the second minute. */
  readonly shareLater: number
  /** Times to first token in that minute, ms: all, and those of the new engine. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly newP99Ms: number
}

export interface WarmUpOptions {
  /** Option of the policy `predicted`. */
  readonly slowStart: number
  readonly seed: number
  /** Requests per second. */
  readonly perS?: number
}

export function warmUp({ slowStart, seed, perS = PER_S }: WarmUpOptions): WarmUp {
  const random = chance(seed)
  const machine = inBlocksOf(BLOCK_TOKENS, engineProfile('agentic'))
  const { policy } = defaultPool()
  const fleet = new VirtualFleet({
    engines: Array.from({ length: ENGINES }, () => machine),
    random,
    pool: { policy: { ...policy, options: { ...policy.options, slowStart } } },
  })
  const sessions = Array.from({ length: SESSIONS }, () => ({ turn: 0, from: 0 }))
  let blocks = 1
  const ask = (): void => {
    const one = sessions[Math.floor(random() * SESSIONS)]!
    if (one.turn === 0) {
      one.from = blocks
      blocks += Math.ceil((FIRST_TOKENS + MAX_TURNS * GROWTH_TOKENS) / BLOCK_TOKENS)
    }
    const promptTokens = FIRST_TOKENS + one.turn * GROWTH_TOKENS
    one.turn = (one.turn + 1) % MAX_TURNS
    const count = Math.floor(promptTokens / BLOCK_TOKENS)
    fleet.send({
      tenant: 'usual',
      promptTokens,
      outputTokens: OUTPUT_TOKENS,
      blocks: keysOf(Array.from({ length: count }, (_, at) => one.from + at)),
      patienceMs: Infinity,
    })
    fleet.at(fleet.now - (Math.log(1 - random()) / perS) * SECOND_MS, ask)
  }
  fleet.at(0, ask)
  fleet.run(JOINS_MS)
  fleet.join([machine])
  fleet.run(JOINS_MS + 2 * MEASURED_MS)
  return { slowStart, ...figuresOf(fleet.served) }
}

function figuresOf(served: readonly ServedRequest[]): Omit<WarmUp, 'slowStart'> {
  const within = (ms: number): ServedRequest[] =>
    served.filter(({ sentAt }) => sentAt >= JOINS_MS && sentAt < JOINS_MS + ms)
  const shareOf = (ms: number): number => within(ms).filter(isNew).length / within(ms).length
  const all = within(MEASURED_MS)
  const later = within(2 * MEASURED_MS).slice(all.length)
  return {
    share10s: shareOf(10 * SECOND_MS),
    share60s: shareOf(MEASURED_MS),
    shareLater: later.filter(isNew).length / later.length,
    p50Ms: quantile(ttfts(all), 0.5),
    p99Ms: quantile(ttfts(all), 0.99),
    newP99Ms: quantile(ttfts(all.filter(isNew)), 0.99),
  }
}

const isNew = ({ engine }: ServedRequest): boolean => engine === `engine-${ENGINES}`

const ttfts = (some: readonly ServedRequest[]): Float64Array =>
  Float64Array.from(
    some.flatMap(({ firstTokenAt, sentAt }) => (firstTokenAt === null ? [] : firstTokenAt - sentAt)),
  ).sort()
