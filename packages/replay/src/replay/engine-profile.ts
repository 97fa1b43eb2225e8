import { profile as priorNamed } from '../../../../src/core/latency/profiles.ts'
import { type Profile, profiles } from '../../../simulator/src/profiles.ts'

/** The same machine with its cache divided into the trace's blocks, because prompts are known only by these. */
export function inBlocksOf(blockTokens: number, profile: Profile): Profile {
  const { limits } = profile
  const tokens = limits.cacheBlocks * limits.blockTokens
  return {
    ...profile,
    limits: {
      ...limits,
      blockTokens,
      cacheBlocks: Math.max(1, Math.floor(tokens / blockTokens)),
      maxModelLen: Infinity,
    },
  }
}

/** A machine that computes 8192 tokens per step: the cost model of vllm-router's program scheduling. */
const DEFAULT_PROFILE = 'agentic'

/**
 * Returns the simulator's profile of that name, or the gateway's prior of that name with the default's decode cost and
 * limits. Throws a RangeError that lists all names.
 */
export function engineProfile(name: string): Profile {
  const known = profiles[name]
  if (known !== undefined) return known
  const costModel = priorNamed(name)
  if (costModel === null)
    throw new RangeError(
      `unknown engine profile "${name}"; profiles: ${Object.keys(profiles).join(', ')}, or GPU-PARAMSb such as h100-8b`,
    )
  const base = profiles[DEFAULT_PROFILE]!
  const prefillStepMs = Math.max(0, costModel.fixedS * 1000 - base.costModel.stepMs)
  return {
    ...base,
    name,
    description: `Prior of ${name}.`,
    costModel: {
      ...base.costModel,
      prefillStepMs,
      prefillTokenMs: costModel.perTokenS * 1000,
      prefillPairMs: costModel.perPairS * 1000,
    },
  }
}

/** Changes the cache capacity of a profile, in tokens. */
export function withCacheTokens(profile: Profile, tokens: number): Profile {
  return {
    ...profile,
    limits: { ...profile.limits, cacheBlocks: Math.max(1, Math.floor(tokens / profile.limits.blockTokens)) },
  }
}
