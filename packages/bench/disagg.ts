/**
 * Compares the same machines as engines that do everything (`whole`) and as prefill and decode engines, with the
 * prefill engines unused (`decode_only`), always used (`split`), or used by `threshold` or `adaptive`. It covers prompt
 * lengths and cached shares in virtual time: the simulator's engine model, placed by the gateway's own pool state. A
 * transfer costs what the profile says.
 *
 * A threshold is right where `split` begins to beat `decode_only`: both are the same pool, with and without the prefill
 * leg.
 *
 * `--profile NAME` (agentic; a profile of the simulator, or a prior such as h100x4-70b with the decode cost of agentic),
 * `--requests N` (120), `--load SHARE` of the capacity of all engines (0.3), `--threshold TOKENS` (2048)
 */
import type { SplitConfig } from '../../src/core/contract/pool-config.ts'
import { engineProfile } from '../replay/src/replay/engine-profile.ts'
import type { Profile } from '../simulator/src/profiles.ts'
import { idleTtftMs } from '../simulator/src/step-cost.ts'
import { SplitFleet, type FleetRequest, type RequestLatency, type Shape } from './disagg/fleet.ts'
import type { Bench, BenchRow } from './result.ts'

const SHAPES: readonly Shape[] = [
  { name: '1P1D', prefill: 1, decode: 1 },
  { name: '2P1D', prefill: 2, decode: 1 },
  { name: '1P2D', prefill: 1, decode: 2 },
  { name: '2P4D', prefill: 2, decode: 4 },
]
const PROMPTS = [512, 1024, 2048, 4096, 8192, 16_384, 32_768] as const
const CACHED = [0, 0.5, 0.9] as const
const OUTPUT_TOKENS = 200
/** Prompts with a shared prefix. */
const GROUPS = 8
/** Not counted: caches and cost models are still cold. */
const WARM_UP_SHARE = 0.25
/** Differences below this are noise. */
const NOISE = 0.05

interface Case {
  readonly shape: Shape
  readonly promptTokens: number
  readonly cached: number
}

interface Settings {
  readonly profile: Profile
  readonly requests: number
  readonly load: number
  readonly modes: Readonly<Record<string, SplitConfig | null>>
}

type Figures = Readonly<Record<(typeof MEASURES)[number], number>>
const MEASURES = ['ttft_ms', 'ttft_p99_ms', 'itl_ms', 'stall_p99_ms', 'end_to_end_ms', 'output_tokens_per_s'] as const

const bench: Bench = async ({ flags, note }) => {
  const splitBy = (mode: SplitConfig['mode']): SplitConfig => ({
    mode,
    thresholdTokens: Number(flags.threshold ?? 2048),
    fallback: 'decode_only',
  })
  const settings: Settings = {
    profile: engineProfile(String(flags.profile ?? 'agentic')),
    requests: Number(flags.requests ?? 120),
    load: Number(flags.load ?? 0.3),
    modes: {
      whole: null,
      decode_only: splitBy('never'),
      split: splitBy('always'),
      threshold: splitBy('threshold'),
      adaptive: splitBy('adaptive'),
    },
  }
  const rows: BenchRow[] = []
  const crossings: Record<string, number> = {}
  let worst = 0
  for (const shape of SHAPES) {
    for (const cached of CACHED) {
      note(`${shape.name}, ${cached * 100} % cached …`)
      const won: boolean[] = []
      for (const promptTokens of PROMPTS) {
        const measured = measure({ shape, promptTokens, cached }, settings)
        const [decodeOnly, split] = [measured['decode_only']!.figures.ttft_ms, measured['split']!.figures.ttft_ms]
        worst = Math.max(worst, measured['adaptive']!.figures.ttft_ms / Math.min(decodeOnly, split) - 1)
        won.push(split < decodeOnly)
        rows.push(...rowsOf({ shape, promptTokens, cached }, measured))
      }
      const from = crossover(won)
      if (from !== null) crossings[`ttft_crossover_tokens_${shape.name.toLowerCase()}_cached_${cached * 100}`] = from
    }
  }
  return { rows, headline: { ...crossings, adaptive_worst_ttft_over_best: worst } }
}

export default bench

/** The prompt length from which on splitting gives an earlier first token; null: none. */
function crossover(won: readonly boolean[]): number | null {
  const lost = won.lastIndexOf(false)
  return lost === won.length - 1 ? null : PROMPTS[lost + 1]!
}

interface ModeFigures {
  readonly figures: Figures
  readonly splitShare: number
}

function measure(one: Case, { profile, requests, load, modes }: Settings): Readonly<Record<string, ModeFigures>> {
  const asks = asksOf(one, profile, { requests, load })
  const measured: Record<string, ModeFigures> = {}
  for (const [name, split] of Object.entries(modes)) {
    const fleet = new SplitFleet(profile, one.shape, split, chance(7))
    fleet.run(asks)
    const counted = [...fleet.served].sort((a, b) => a.endedAt - b.endedAt).slice(Math.floor(requests * WARM_UP_SHARE))
    measured[name] = {
      figures: figuresOf(counted),
      splitShare: counted.filter((served) => served.split).length / counted.length,
    }
  }
  return measured
}

function figuresOf(served: readonly RequestLatency[]): Figures {
  const seconds = (served.at(-1)!.endedAt - served[0]!.endedAt) / 1000
  return {
    ttft_ms: mean(served.map(({ ttft }) => ttft)),
    ttft_p99_ms: p99(served.map(({ ttft }) => ttft)),
    itl_ms: mean(served.map(({ itl }) => itl)),
    stall_p99_ms: p99(served.map(({ stall }) => stall)),
    end_to_end_ms: mean(served.map(({ endToEnd }) => endToEnd)),
    output_tokens_per_s: ((served.length - 1) * OUTPUT_TOKENS) / seconds,
  }
}

function rowsOf({ shape, promptTokens, cached }: Case, measured: Readonly<Record<string, ModeFigures>>): BenchRow[] {
  const whole = measured['whole']!.figures
  return Object.entries(measured).map(([mode, { figures, splitShare }]) => ({
    engines: shape.name,
    prompt_tokens: promptTokens,
    cached_share: cached,
    mode,
    split_share: mode === 'whole' ? null : Math.round(splitShare * 100) / 100,
    ...Object.fromEntries(MEASURES.map((name) => [name, Math.round(figures[name] * 10) / 10])),
    worse_than_whole: mode === 'whole' ? '' : regressions(figures, whole),
  }))
}

/** Measures in which it is worse than the same machines without a split, and the difference. */
function regressions(figures: Figures, whole: Figures): string {
  return MEASURES.flatMap((name) => {
    const loss = name === 'output_tokens_per_s' ? whole[name] / figures[name] - 1 : figures[name] / whole[name] - 1
    return loss > NOISE ? [`${name.replace(/_(ms|per_s)$/, '')} +${Math.round(loss * 100)}%`] : []
  }).join(', ')
}

/**
 * Random arrivals at a share of what all engines can prefill and decode; prompts of a group share their leading blocks.
 */
function asksOf(
  { shape, promptTokens, cached }: Case,
  profile: Profile,
  { requests, load }: Pick<Settings, 'requests' | 'load'>,
): FleetRequest[] {
  const random = chance(promptTokens + cached * 10)
  const { blockTokens, maxNumBatchedTokens } = profile.limits
  const sharedBlocks = Math.floor((promptTokens * cached) / blockTokens)
  const prefillMs = idleTtftMs(profile.costModel, promptTokens, sharedBlocks * blockTokens, maxNumBatchedTokens)
  const decodeMs =
    OUTPUT_TOKENS *
    (profile.costModel.stepMs / 32 +
      profile.costModel.decodeSequenceMs +
      promptTokens * profile.costModel.decodeContextTokenMs)
  const gapMs = (prefillMs + decodeMs) / (shape.prefill + shape.decode) / load
  let at = 0
  return Array.from({ length: requests }, (_, index) => {
    at += -Math.log(1 - random()) * gapMs
    const group = Math.floor(random() * GROUPS)
    const blocks = new Uint32Array(2 * Math.floor((promptTokens + OUTPUT_TOKENS) / blockTokens))
    for (let block = 0; block * 2 < blocks.length; block++) {
      blocks[2 * block] = block
      blocks[2 * block + 1] = block < sharedBlocks ? group + 1 : 1000 + index
    }
    return { at, promptTokens, outputTokens: OUTPUT_TOKENS, blocks }
  })
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
const p99 = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1]!

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
function chance(seed: number): () => number {
  let state = Math.trunc(seed * 2_654_435_761) | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
