/** An engine that becomes slower than its siblings under load, in virtual time: who gets its requests, and how late they are. */
import { predictionErrorMs } from '../../../src/core/pool/condition/owed-tokens.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile, inBlocksOf } from '../../replay/src/replay/engine-profile.ts'
import { quantile } from '../../replay/src/replay/statistics.ts'
import { type ServedRequest, VirtualFleet } from './virtual-fleet.ts'

const ENGINES = 3
const BLOCK_TOKENS = 16
const SECOND_MS = 1_000
const SLOW_FROM_MS = 60 * SECOND_MS
const SLOW_MS = 120 * SECOND_MS
const AFTER_MS = 120 * SECOND_MS
const PROMPT_TOKENS = 200
const OUTPUT_TOKENS = 40
/** Share by which a first token may be later than predicted. */
const ALLOWED_SHARE = 0.2

export interface SlowEngineOptions {
  /** Factor on the time of each step. 1: as fast as its siblings. */
  readonly factor: number
  readonly seed: number
  /** Requests per second. */
  readonly perS?: number
  /** Healthy engines beside the slow one. */
  readonly siblings?: number
  /** The slow engine is not part of the fleet. */
  readonly isAbsent?: boolean
}

export interface SlowEngine {
  /** Requests on the slow engine while it was slow, of which `ownLater` were more than 20 % later than predicted. */
  readonly placed: number
  readonly ownLater: number
  /** Seconds from the first overdue sign to the placement of the last of them; null: none was placed after the sign. */
  readonly followedS: number | null
  /** p99 of the time to first token while it was slow: of its siblings, and of all, ms. */
  readonly siblingsP99Ms: number
  readonly allP99Ms: number
  /** Share of the requests that it gets in the second minute after the end. */
  readonly shareAfter: number
  /** Seconds from the fault to the first ejection, and from its end to the last return; null: none. */
  readonly ejectedS: number | null
  readonly returnedS: number | null
  readonly ejections: number
}

/** Plays one minute of health, two of slowness, and two of health. */
export function slowEngine({
  factor,
  seed,
  perS = 8,
  siblings = ENGINES - 1,
  isAbsent,
}: SlowEngineOptions): SlowEngine {
  const random = chance(seed)
  const machine = inBlocksOf(BLOCK_TOKENS, engineProfile('demo'))
  const engines = Array.from({ length: siblings + (isAbsent === true ? 0 : 1) }, () => machine)
  const fleet = new VirtualFleet({ engines, random })
  const ask = (): void => {
    fleet.send({
      tenant: 'usual',
      promptTokens: Math.round(PROMPT_TOKENS * (0.5 + random())),
      outputTokens: Math.round(OUTPUT_TOKENS * (0.5 + random())),
      blocks: new Uint32Array(0),
      patienceMs: 10 * SECOND_MS,
    })
    fleet.at(fleet.now - (Math.log(1 - random()) / perS) * SECOND_MS, ask)
  }
  const slowed = (by: number): void => {
    if (isAbsent !== true) fleet.models[siblings]!.slowdown = by
  }
  fleet.at(0, ask)
  fleet.at(SLOW_FROM_MS, () => slowed(factor))
  fleet.at(SLOW_FROM_MS + SLOW_MS, () => slowed(1))
  fleet.run(SLOW_FROM_MS + SLOW_MS + AFTER_MS)
  return { ...figuresOf(fleet.served, `engine-${siblings}`), ...ejectionsOf(fleet) }
}

function ejectionsOf({ events }: VirtualFleet): Pick<SlowEngine, 'ejectedS' | 'returnedS' | 'ejections'> {
  const timesOf = (name: string): number[] => events.flatMap(({ at, event }) => (event === name ? [at] : []))
  const [out, back] = [timesOf('engine_down'), timesOf('engine_up')]
  return {
    ejectedS: out.length === 0 ? null : (out[0]! - SLOW_FROM_MS) / SECOND_MS,
    returnedS: back.length === 0 ? null : (back.at(-1)! - SLOW_FROM_MS - SLOW_MS) / SECOND_MS,
    ejections: out.length,
  }
}

type Latencies = Omit<SlowEngine, 'ejectedS' | 'returnedS' | 'ejections'>

function figuresOf(served: readonly ServedRequest[], slow: string): Latencies {
  const sentIn = (fromMs: number, untilMs: number): ServedRequest[] =>
    served.filter(({ sentAt }) => sentAt >= fromMs && sentAt < untilMs)
  const during = sentIn(SLOW_FROM_MS, SLOW_FROM_MS + SLOW_MS)
  const there = during.filter(({ engine }) => engine === slow)
  const end = SLOW_FROM_MS + SLOW_MS + AFTER_MS
  const last = sentIn(end - AFTER_MS / 2, end)
  return {
    placed: there.length,
    ownLater: there.filter(isLater).length,
    followedS: followedS(there.filter(isLater)),
    siblingsP99Ms: p99(during.filter(({ engine }) => engine !== slow)),
    allP99Ms: p99(during),
    shareAfter: last.filter(({ engine }) => engine === slow).length / last.length,
  }
}

/** The first sign is a first token that comes late, or that is overdue by its published error. */
function followedS(late: readonly ServedRequest[]): number | null {
  const signsAt = late.map(({ sentAt, predictedMs, firstTokenAt }) =>
    Math.min(firstTokenAt ?? Infinity, sentAt + predictedMs! + predictionErrorMs(predictedMs!, true)),
  )
  const signAt = Math.min(...signsAt)
  const after = late.filter(({ sentAt }) => sentAt > signAt)
  return after.length === 0 ? null : (after.at(-1)!.sentAt - signAt) / SECOND_MS
}

/** A request without a first token is late, too. */
const isLater = ({ predictedMs, firstTokenAt, sentAt }: ServedRequest): boolean =>
  predictedMs !== null && (firstTokenAt ?? Infinity) - sentAt > (1 + ALLOWED_SHARE) * predictedMs

const p99 = (some: readonly ServedRequest[]): number =>
  quantile(
    Float64Array.from(some, ({ firstTokenAt, sentAt }) => (firstTokenAt === null ? 1e9 : firstTokenAt - sentAt)).sort(),
    0.99,
  )
