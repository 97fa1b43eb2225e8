import type { StepCostModel } from './step-cost.ts'

/** Limits of an engine, with the names of vLLM's flags. */
export interface EngineLimits {
  readonly blockTokens: number
  /** `num_gpu_blocks`: capacity of the KV cache in blocks. */
  readonly cacheBlocks: number
  readonly maxNumSeqs: number
  readonly maxNumBatchedTokens: number
  readonly maxModelLen: number
}

/** Timing and memory of a GPU and model. */
export interface Profile {
  readonly name: string
  readonly description: string
  readonly costModel: StepCostModel
  readonly limits: EngineLimits
}

const transfer = { transferMs: 5, transferTokenMs: 0.002, encodeItemMs: 60 }
const nothing: StepCostModel = {
  stepMs: 0,
  prefillStepMs: 0,
  prefillTokenMs: 0,
  prefillPairMs: 0,
  decodeSequenceMs: 0,
  decodeContextTokenMs: 0,
  encodeItemMs: 0,
  transferMs: 0,
  transferTokenMs: 0,
}

const demo: Profile = {
  name: 'demo',
  description: 'For demos: 100 tokens/s, 0.2 s for a prompt of 1000 tokens, a cache of 32k tokens.',
  costModel: {
    stepMs: 8,
    prefillStepMs: 12,
    prefillTokenMs: 0.18,
    prefillPairMs: 1e-5,
    decodeSequenceMs: 0.4,
    decodeContextTokenMs: 1e-4,
    ...transfer,
  },
  limits: { blockTokens: 16, cacheBlocks: 2048, maxNumSeqs: 64, maxNumBatchedTokens: 2048, maxModelLen: 32_768 },
}

const test: Profile = {
  name: 'test',
  description: '20 times as fast as `demo`, with a cache of 16k tokens.',
  costModel: {
    stepMs: 0.4,
    prefillStepMs: 0.6,
    prefillTokenMs: 0.009,
    prefillPairMs: 5e-7,
    decodeSequenceMs: 0.02,
    decodeContextTokenMs: 5e-6,
    encodeItemMs: 3,
    transferMs: 0.5,
    transferTokenMs: 1e-4,
  },
  limits: { blockTokens: 16, cacheBlocks: 1024, maxNumSeqs: 64, maxNumBatchedTokens: 2048, maxModelLen: 16_384 },
}

const instant: Profile = {
  name: 'instant',
  description: 'Responds without delay, for measurements of the gateway in front of it.',
  costModel: nothing,
  limits: {
    blockTokens: 16,
    cacheBlocks: 65_536,
    maxNumSeqs: 1024,
    maxNumBatchedTokens: 65_536,
    maxModelLen: 1_048_576,
  },
}

const cpuSmall: Profile = {
  name: 'cpu_small_f32',
  description:
    'vLLM 0.32 on two CPU cores, a model of 8 layers of 512, float32: prefill 38 ms + 0.98 ms per token + ' +
    '4.75e-4 ms per pair (fitted, 4 % median error); decode estimated.',
  costModel: {
    stepMs: 10,
    prefillStepMs: 28,
    prefillTokenMs: 0.98,
    prefillPairMs: 4.75e-4,
    decodeSequenceMs: 3,
    decodeContextTokenMs: 5e-4,
    ...transfer,
  },
  limits: { blockTokens: 32, cacheBlocks: 2048, maxNumSeqs: 8, maxNumBatchedTokens: 2048, maxModelLen: 16_384 },
}

const cpuSmallBf16: Profile = {
  ...cpuSmall,
  name: 'cpu_small_bf16',
  description:
    'The same in bfloat16, which such a CPU lacks: 24 ms + 6 ms per token + 6.5e-4 ms per pair (7.5 % median error).',
  costModel: { ...cpuSmall.costModel, prefillStepMs: 14, prefillTokenMs: 6, prefillPairMs: 6.5e-4 },
}

const agentic: Profile = {
  name: 'agentic',
  description:
    'One server of the program-scheduling study: prefill 66 ms + 57 us per token + 4.4e-9 s per token squared; ' +
    'decode step 10.6 ms + 0.42 ms per sequence + 0.14 us per context token.',
  costModel: {
    stepMs: 10.635,
    prefillStepMs: 55.365,
    prefillTokenMs: 0.05702,
    // 0.0044057 s for (1000 tokens)², and a pair is half a square.
    prefillPairMs: 8.8114e-6,
    decodeSequenceMs: 0.41928,
    decodeContextTokenMs: 1.42e-4,
    ...transfer,
  },
  limits: { blockTokens: 16, cacheBlocks: 32_768, maxNumSeqs: 256, maxNumBatchedTokens: 8192, maxModelLen: 131_072 },
}

export const profiles: Readonly<Record<string, Profile>> = Object.fromEntries(
  [demo, test, instant, cpuSmall, cpuSmallBf16, agentic].map((profile) => [profile.name, profile]),
)

/** Returns the profile of that name. The error lists all names. */
export function profileNamed(name: string): Profile {
  const profile = profiles[name]
  if (profile === undefined)
    throw new RangeError(`unknown profile "${name}"; profiles: ${Object.keys(profiles).join(', ')}`)
  return profile
}
