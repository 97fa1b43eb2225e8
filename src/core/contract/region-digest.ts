/**
 * What a pool lets those expect who choose among pools from afar, and a while later: when a first token may be there, and
 * which prompts it knows. Small enough to be asked for every other second.
 */
import { type PrefillCostModel, blend, prefillSeconds } from '../latency/cost-model.ts'

/** What a new prompt meets on one engine. */
export interface EngineEstimate {
  /** Seconds before the engine takes it up: the network, and the prefill that is booked there. */
  readonly waitS: number
  /** Prompts there whose first token has not come. */
  readonly queued: number
  readonly costModel: PrefillCostModel
  /** How far the law was learned from the engine's own answers, 0..1. */
  readonly confidence: number
}

export interface RegionDigest {
  readonly version: number
  readonly cluster: string
  readonly pool: string
  readonly configVersion: number
  /** Engines that may be given a prompt now. */
  readonly engines: number
  /** Requests booked and not released. */
  readonly requests: number
  /** Prompts an engine, in the mean, whose first token has not come. */
  readonly queued: number
  /** Of the laws, that of the engine known best. */
  readonly confidence: number
  /** The engine that would be done with a new prompt first, and the one in the middle; null: there is none. */
  readonly soonest: Pick<EngineEstimate, 'waitS' | 'costModel'> | null
  readonly usual: Pick<EngineEstimate, 'waitS' | 'costModel'> | null
  /** Prompts that an engine holds the beginning of, as `PrefixFilter` reads them. */
  readonly prefixes: string
  /** Names of the gateways it has come through, who has the engines first. Absent: nobody has told it yet. */
  readonly via?: readonly string[]
}

export const OUTLOOK_VERSION = 1

/** By what engines are compared, and what operators are told of: a prompt of this many new tokens. */
export const TYPICAL_TOKENS = 1024
const PROBE = { promptTokens: TYPICAL_TOKENS, cachedTokens: 0 }

type Facts = Pick<RegionDigest, 'cluster' | 'pool' | 'configVersion' | 'requests' | 'prefixes'>

/** @param prospects of the engines that may be given a prompt now */
export function regionDigestOf(prospects: readonly EngineEstimate[], facts: Facts): RegionDigest {
  const common = commonLaw(prospects)
  // Of several that have shown little, one always seems fast.
  const ranked = prospects
    .map(({ waitS, costModel, confidence }) => ({
      waitS,
      costModel: common === null ? costModel : blend(costModel, common, confidence),
    }))
    .sort((a, b) => doneS(a) - doneS(b))
  const count = ranked.length
  const queued = count === 0 ? 0 : prospects.reduce((sum, one) => sum + one.queued, 0) / count
  const confidence = Math.max(0, ...prospects.map((one) => one.confidence))
  return {
    version: OUTLOOK_VERSION,
    ...facts,
    engines: count,
    queued,
    confidence,
    soonest: ranked[0] ?? null,
    usual: ranked[count >> 1] ?? null,
  }
}

const doneS = ({ waitS, costModel }: Pick<EngineEstimate, 'waitS' | 'costModel'>): number =>
  waitS + prefillSeconds(costModel, PROBE)

/** Of all, by how well they are known; null: nobody is. */
function commonLaw(prospects: readonly EngineEstimate[]): PrefillCostModel | null {
  let common: PrefillCostModel | null = null
  let known = 0
  for (const { costModel, confidence } of prospects) {
    known += confidence
    if (confidence > 0) common = common === null ? costModel : blend(costModel, common, confidence / known)
  }
  return common
}

/** What one prompt may hope for in one pool. */
export interface TtftEstimate {
  /** Seconds it waits for others: what changes until it is there. */
  readonly waitS: number
  /** Seconds of its own prefill. */
  readonly prefillS: number
  /** The same, were nothing of it cached. */
  readonly coldS: number
  /** Tokens of it that it need not compute. */
  readonly cachedTokens: number
}

/**
 * Whoever holds the prompt's beginning is as busy as any; if that is too long, another engine computes it all.
 * @param cachedTokens of the prompt that some engine there holds
 * @returns null: nobody there may be given a prompt.
 */
export function estimateTtft(
  { soonest, usual }: Pick<RegionDigest, 'soonest' | 'usual'>,
  promptTokens: number,
  cachedTokens: number,
): TtftEstimate | null {
  if (soonest === null || usual === null) return null
  const there = Math.min(cachedTokens, Math.max(0, promptTokens - 1))
  const again = estimate(usual, promptTokens, there)
  const anew = estimate(soonest, promptTokens, 0)
  return there > 0 && again.waitS + again.prefillS <= anew.waitS + anew.prefillS ? again : anew
}

function estimate(
  { waitS, costModel }: NonNullable<RegionDigest['usual']>,
  promptTokens: number,
  cachedTokens: number,
): TtftEstimate {
  const coldS = prefillSeconds(costModel, { promptTokens, cachedTokens: 0 })
  return {
    waitS,
    prefillS: cachedTokens === 0 ? coldS : prefillSeconds(costModel, { promptTokens, cachedTokens }),
    coldS,
    cachedTokens,
  }
}
