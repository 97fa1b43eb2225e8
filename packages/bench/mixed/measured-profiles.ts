/** Simulator profiles fitted to measured runs of vLLM: a folder of `NAME.requests.jsonl` with `NAME.meta.json`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fitProfile } from '../../replay/src/calibrate/fit.ts'
import { readMeasured } from '../../replay/src/calibrate/measured.ts'
import type { Profile } from '../../simulator/src/profiles.ts'

/** Tokens of the KV cache where the run does not report them: 96 GB less weights and activations, by size of a token. */
interface MeasuredRun {
  readonly file: string
  readonly cacheTokens: number
  readonly engines: number
  readonly expertShare: number | null
}

const RUNS = {
  rtx4090_8b: { file: 'RTX4090_Llama-3.1-8B', cacheTokens: 41_408, engines: 1, expertShare: null },
  pro6000_8b: { file: 'RTXPRO6000_Llama-3.1-8B', cacheTokens: 500_000, engines: 1, expertShare: null },
  pro6000_30b_a3b: {
    file: 'RTXPRO6000_Qwen3-30B-A3B-Instruct-2507',
    cacheTokens: 250_000,
    engines: 2,
    expertShare: 8 / 128,
  },
  pro6000x2_32b: { file: 'RTXPRO6000_Qwen3-32B', cacheTokens: 400_000, engines: 1, expertShare: null },
} satisfies Record<string, MeasuredRun>

export type MeasuredName = keyof typeof RUNS

const BLOCK_TOKENS = 16

interface Meta {
  readonly engine_kwargs: { readonly max_num_seqs: number; readonly max_num_batched_tokens: number }
}

/** The profile of a measured run, fitted on the first half of its requests. */
export function measuredProfile(folder: string, name: MeasuredName, evaluations: number): Profile {
  const run = RUNS[name]
  const { engine_kwargs: flags } = JSON.parse(readFileSync(join(folder, `${run.file}.meta.json`), 'utf8')) as Meta
  const measured = readMeasured(readFileSync(join(folder, `${run.file}.requests.jsonl`), 'utf8'))
  return fitProfile(measured, {
    name,
    limits: {
      blockTokens: BLOCK_TOKENS,
      cacheBlocks: Math.floor(run.cacheTokens / BLOCK_TOKENS),
      maxNumSeqs: flags.max_num_seqs,
      maxNumBatchedTokens: flags.max_num_batched_tokens,
      maxModelLen: 131_072,
    },
    engines: run.engines,
    expertShare: run.expertShare,
    fitted: Math.floor(measured.length / 2),
    evaluations,
  })
}
