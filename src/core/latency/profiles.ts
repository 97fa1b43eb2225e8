import type { PrefillCostModel } from './prefill-cost-model.ts'

/**
 * Dense bf16 peak of one GPU in TFLOPS, without sparsity, from NVIDIA's data sheets (H100/H200 SXM, B200, A100 SXM,
 * L40S, L4, A10) and the Ada whitepaper (RTX 4090, fp32 accumulate).
 */
const PEAK_TFLOPS: Readonly<Record<string, number>> = {
  b200: 2250,
  h200: 989,
  h100: 989,
  a100: 312,
  l40s: 362,
  rtx4090: 165,
  a10: 125,
  l4: 121,
}

/**
 * Share of the peak that prefill reaches: matrix products, and attention. Usual for vLLM on these GPUs, not measured
 * by us.
 */
const DENSE_SHARE = 0.5
const ATTENTION_SHARE = 0.35
/** Efficiency of each further GPU under tensor parallelism. */
const PARALLEL_SHARE = 0.85
/** HTTP, tokenizer, scheduling and one decode step. */
const FIXED_S = 0.015

/** Layers x hidden size of Llama 3 8B; larger models grow it with parameters^0.74 (Llama 3 70B: five times). */
const REFERENCE_PARAMS_B = 8.03
const REFERENCE_WIDTH = 32 * 4096
const WIDTH_EXPONENT = 0.74

/** Measured, not derived: vLLM 0.32 on one CPU thread, a model of hidden size 512 and 8 layers. */
const MEASURED: Readonly<Record<string, PrefillCostModel>> = {
  'cpu-f32': { fixedS: 0.038, perTokenS: 0.98e-3, perPairS: 4.75e-7 },
  'cpu-bf16': { fixedS: 0.024, perTokenS: 6.0e-3, perPairS: 6.5e-7 },
}

export const DEFAULT_PROFILE = 'h100-8b'

/**
 * Returns the prior cost model of a profile: `GPU-PARAMSb` or `GPUxCOUNT-PARAMSb`, such as `h100-8b` or `a100x4-70b`
 * (active parameters for mixtures of experts), or a measured name. It may be off by a factor of two and is replaced
 * after a few responses. null: unknown profile.
 */
export function profile(name: string): PrefillCostModel | null {
  const measured = MEASURED[name]
  if (measured !== undefined) return measured
  const parts = /^([a-z0-9]+?)(?:x(\d{1,3}))?-(\d{1,4}(?:\.\d+)?)b$/.exec(name.toLowerCase())
  const peak = parts === null ? undefined : PEAK_TFLOPS[parts[1]!]
  if (parts === null || peak === undefined) return null
  const gpus = Math.max(1, Number(parts[2] ?? 1))
  const paramsB = Number(parts[3])
  if (paramsB === 0) return null
  const flops = peak * 1e12 * (1 + (gpus - 1) * PARALLEL_SHARE)
  const width = REFERENCE_WIDTH * (paramsB / REFERENCE_PARAMS_B) ** WIDTH_EXPONENT
  // Two FLOPs a parameter and token; four a pair, layer and channel (query x key, weights x value).
  return {
    fixedS: FIXED_S,
    perTokenS: (2 * paramsB * 1e9) / (flops * DENSE_SHARE),
    perPairS: (4 * width) / (flops * ATTENTION_SHARE),
  }
}

/** Profile names for error messages and docs. */
export const profileNames: readonly string[] = [
  ...Object.keys(PEAK_TFLOPS).map((gpu) => `${gpu}-8b`),
  ...Object.keys(MEASURED),
]
