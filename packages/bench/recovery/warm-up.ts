/**
 * An engine joins a fleet under load, in virtual time: its share of the requests, and how late they are beside the same
 * requests without it.
 */
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
/** Seed of the pool's choices is this much larger: they must not change the requests. */
const POOL_SEED = 1_000_000
/** Time by which a first token is noticeably later, ms. */
const LATER_MS = 50

/** Time to first token in the minute after the join, ms, and of the same requests in the same load without the engine. */
interface PairedTimes {
  readonly meanMs: number
  readonly meanWithoutMs: number
  readonly p99Ms: number
  readonly p99WithoutMs: number
}

export interface WarmUp {
  /** Share of the requests in the first ten seconds and in the minute after the join, that the new engine got. */
  readonly share10s: number
  readonly share60s: number
  /** Share in the second minute. */
  readonly shareLater: number
  readonly all: PairedTimes
  /** Requests that the other engines got. */
  readonly others: PairedTimes
  /** Requests that the new engine got. */
  readonly own: PairedTimes
  /** Shares of the requests of the other engines, and of the new one, that are later than without it. */
  readonly othersLater: number
  readonly ownLater: number
}

export interface WarmUpOptions {
  /** Option of the policy `predicted`. */
  readonly slowStart: number
  readonly seed: number
  /** Requests per second. */
  readonly perS?: number
}

/** Plays the same requests with and without the new engine. */
export function warmUp(options: WarmUpOptions): WarmUp {
  const served = play(options, true)
  const without = play(options, false)
  const pairs = served.map((one, at): Pair => ({ one, ms: ttftMs(one), withoutMs: ttftMs(without[at]!) }))
  const within = (fromMs: number, untilMs: number): Pair[] =>
    pairs.filter(({ one: { sentAt } }) => sentAt >= JOINS_MS + fromMs && sentAt < JOINS_MS + untilMs)
  const all = within(0, MEASURED_MS)
  const own = all.filter(isOwn)
  const others = all.filter((pair) => !isOwn(pair))
  return {
    share10s: shareOf(within(0, 10 * SECOND_MS), isOwn),
    share60s: shareOf(all, isOwn),
    shareLater: shareOf(within(MEASURED_MS, 2 * MEASURED_MS), isOwn),
    all: timesOf(all),
    others: timesOf(others),
    own: timesOf(own),
    othersLater: shareOf(others, isLater),
    ownLater: shareOf(own, isLater),
  }
}

/** Returns the requests in the order in which they were sent, which is the same with and without the new engine. */
function play({ slowStart, seed, perS = PER_S }: WarmUpOptions, joins: boolean): readonly ServedRequest[] {
  const random = chance(seed)
  const machine = inBlocksOf(BLOCK_TOKENS, engineProfile('agentic'))
  const { policy } = defaultPool()
  const fleet = new VirtualFleet({
    engines: Array.from({ length: ENGINES }, () => machine),
    random: chance(seed + POOL_SEED),
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
  if (joins) fleet.join([machine])
  fleet.run(JOINS_MS + 2 * MEASURED_MS)
  return fleet.served
}

/** A request with the times to its first token, ms; Infinity: it had none at the end. */
interface Pair {
  readonly one: ServedRequest
  readonly ms: number
  readonly withoutMs: number
}

const ttftMs = ({ firstTokenAt, sentAt }: ServedRequest): number => (firstTokenAt ?? Infinity) - sentAt

const isOwn = ({ one: { engine } }: Pair): boolean => engine === `engine-${ENGINES}`

const isLater = ({ ms, withoutMs }: Pair): boolean => ms > withoutMs + LATER_MS

const shareOf = (pairs: readonly Pair[], holds: (pair: Pair) => boolean): number =>
  pairs.filter(holds).length / pairs.length

function timesOf(pairs: readonly Pair[]): PairedTimes {
  const ms = pairs.map((pair) => pair.ms)
  const withoutMs = pairs.map((pair) => pair.withoutMs)
  return { meanMs: mean(ms), meanWithoutMs: mean(withoutMs), p99Ms: p99(ms), p99WithoutMs: p99(withoutMs) }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

const p99 = (values: readonly number[]): number => quantile(Float64Array.from(values).sort(), 0.99)
