import type { Profile } from '../../../simulator/src/profiles.ts'
import { kvawareWith } from './baselines/production-stack.ts'
import { engineProfile, withCacheTokens } from './engine-profile.ts'
import { GatewayRouter } from './gateway-router.ts'
import { LMCACHE_DEFAULTS } from './lmcache-store.ts'
import { fleetOf, type FleetPlan } from './plan.ts'
import type { RouterKind } from './router.ts'
import { gatewayKind, routerNamed } from './routers.ts'
import type { RunResult } from './run.ts'
import { keysOf, type Trace, type TraceRequest } from './trace.ts'
import { multiRound, sharedPrefixes } from './workloads.ts'

/** One table of a published experiment. */
interface PresetPart {
  readonly name: string
  readonly trace: Trace
  readonly fleet: FleetPlan
  readonly kinds: readonly RouterKind[]
  readonly closedLoop: boolean
  readonly concurrency: number
  /** Interval at which the authors' client looks for requests to send; absent: it never waits. */
  readonly pollMs?: number
  /** Figures reported by the authors, by policy; printed beside the simulated ones. */
  readonly published?: Readonly<Record<string, string>>
  /** Further columns. */
  readonly extra?: (result: RunResult) => Readonly<Record<string, number>>
}

interface Preset {
  readonly name: string
  readonly doc: string
  readonly notes: readonly string[]
  readonly parts: readonly PresetPart[]
}

interface PresetKind {
  readonly name: string
  readonly doc: string
  readonly notes?: readonly string[]
  parts(): readonly PresetPart[]
}

const others = ['predicted', 'active_blocks', 'least_loaded', 'round_robin', 'exact'].map(routerNamed)

/**
 * RTX 3090 with Qwen2-7B. Prefill: 21k tokens take 5.3 s, as implied by experiment 2's true mean (13.1 s with 5 in
 * flight on two engines). Decode: memory bandwidth (15 GB of weights, 936 GB/s). 0.8 x 24 GB minus the weights holds
 * 53k tokens.
 */
const rtx3090: Profile = withCacheTokens(
  {
    name: 'rtx3090-7b',
    description: 'RTX 3090, Qwen2-7B.',
    costModel: {
      stepMs: 17,
      prefillStepMs: 5,
      prefillTokenMs: 0.17,
      prefillPairMs: 8e-6,
      decodeSequenceMs: 0.2,
      decodeContextTokenMs: 6e-5,
      encodeItemMs: 60,
      transferMs: 5,
      transferTokenMs: 0.002,
    },
    limits: { blockTokens: 16, cacheBlocks: 1, maxNumSeqs: 256, maxNumBatchedTokens: 2048, maxModelLen: 32_768 },
  },
  53_000,
)

/** The page's 1 GB of memory and 10 GB of disk, at Qwen2-7B’s 57,344 bytes of KV per token. */
const pageLmcache = { ...LMCACHE_DEFAULTS, hostTokens: 18_724, diskTokens: 187_245 }

const ttft670 = routerNamed('production_stack_ttft')

const kvawareAlways = kvawareWith('kvaware', 999_999_999)

const qps = kvawareWith('qps_fallback', 0)

/** @param joinMs interval at which users join, milliseconds */
export const experiment1Trace = (joinMs: number): Trace =>
  multiRound({
    name: 'experiment-1',
    users: 206,
    rounds: 10,
    systemTokens: 1,
    historyTokens: 200,
    questionTokens: 46,
    answerTokens: 65,
    joinMs,
    thinkMs: 0,
    blockTokens: 16,
    named: false,
  })

const experiment1: PresetKind = {
  name: 'experiment-1',
  doc:
    'production-stack#670, experiment 1: multi-round QA on 2 x RTX 3090 with Qwen2-7B, 10 rounds a user, at most ' +
    '20 unfinished, answers of 65 tokens (as its output rate implies).',
  notes: [
    'Published means of TTFT: ttft 0.3968 s, kvaware 0.4788 s, qps 0.5119 s. With as much LMCache as its page ' +
      'has; all fits the GPUs, so nothing is ever loaded from it. Its client polls for requests to send every 100 ms.',
  ],
  parts: () => [
    {
      name: 'experiment-1',
      trace: experiment1Trace(90),
      fleet: { ...fleetOf(2, { kind: 'vllm', profile: rtx3090 }), lmcache: pageLmcache },
      kinds: [ttft670, kvawareAlways, qps, routerNamed('ttft'), ...others],
      closedLoop: true,
      concurrency: 20,
      pollMs: 100,
      published: { production_stack_ttft: '396.8', kvaware: '478.8', qps_fallback: '511.9' },
    },
  ],
}

const WORKERS = 10

const EACH = 10

/** The requests of each worker follow each other; the fixed prefix has 272 tokens, the body 21,116. */
function experiment2Trace(): Trace {
  let next = 1
  const take = (count: number) => Array.from({ length: count }, () => next++)
  const prefix = take(17)
  const requests: TraceRequest[] = []
  for (let turn = 0; turn < EACH; turn += 1) {
    for (let worker = 0; worker < WORKERS; worker += 1) {
      requests.push({
        atMs: turn,
        promptTokens: 272 + 21_116,
        outputTokens: 1,
        blocks: keysOf([...prefix, ...take(1319)]),
        session: null,
        chain: `worker-${worker}`,
        thinkMs: 10,
      })
    }
  }
  return { name: 'experiment-2', blockTokens: 16, requests }
}

/**
 * The script wrote `finish_times[worker + i]`, so later requests overwrote earlier ones and 81 of 100 stayed zero.
 * @testing
 */
export function publishedMean(result: RunResult): Readonly<Record<string, number>> {
  const slots = new Float64Array(result.jobs.length)
  const turns = new Map<string, number>()
  const ended = result.jobs.map((job) => {
    const chain = job.request.chain!
    const turn = turns.get(chain) ?? 0
    turns.set(chain, turn + 1)
    return { slot: Number(chain.replace('worker-', '')) + turn, at: job.endedAt, tookMs: job.endedAt - job.sentAt }
  })
  for (const { slot, tookMs } of ended.sort((one, other) => one.at - other.at)) slots[slot] = tookMs
  return {
    as_published_ms: Math.round(slots.reduce((sum, ms) => sum + ms, 0) / slots.length),
    slots_written: slots.filter((ms) => ms > 0).length,
  }
}

const experiment2: PresetKind = {
  name: 'experiment-2',
  doc:
    'production-stack#670, experiment 2: 100 prompts of one fixed prefix and 20,000 random words, 5 in flight, ' +
    'one token of output, 2 x RTX 3090 with Qwen2-7B.',
  notes: [
    'Published: ttft 2498 ms, qps 3067 ms, kvaware 5314 ms: means over 100 slots of which its script wrote 19. ' +
      '`as_published_ms` repeats that; ttft_mean is the true mean.',
  ],
  parts: () => [
    {
      name: 'experiment-2',
      trace: experiment2Trace(),
      fleet: fleetOf(2, { kind: 'vllm', profile: rtx3090 }),
      kinds: [ttft670, kvawareAlways, qps, ...others],
      closedLoop: true,
      concurrency: 5,
      published: { production_stack_ttft: '2498.1', kvaware: '5314.1', qps_fallback: '3066.9' },
      extra: publishedMean,
    },
  ],
}

/** `active_blocks` with a delay in milliseconds between choice and booking. */
function bookedAfter(ms: number): RouterKind {
  const name = `active_blocks_booked_after_${ms}ms`
  return {
    name,
    doc: 'Separate selection and booking.',
    source: 'ablation',
    create: (context) =>
      new GatewayRouter({ name, policy: { name: 'active_blocks', options: {} }, bookingDelayMs: ms }, context),
  }
}

const REQUESTS = 600

const l40s = () => fleetOf(8, { kind: 'vllm', profile: withCacheTokens(engineProfile('l40s-8b'), 205_000) })

function blocksPreset(
  name: string,
  doc: string,
  vary: { readonly prompt: number; readonly output: number },
): PresetKind {
  return {
    name,
    doc: `ai-dynamo/dynamo#1731: 8 x L40S with an 8B model, ISL 7000, OSL 100, 10 prefixes of half the ISL; ${doc}`,
    notes: [
      'Its authors publish plots only. Rows `booked_after` separate choosing from booking: what one atomic ' +
        'step is worth.',
    ],
    parts: () =>
      [10, 20].map((concurrency) => ({
        name: `${name}, concurrency ${concurrency}`,
        trace: sharedPrefixes({
          name,
          requests: REQUESTS,
          promptTokens: 7000,
          outputTokens: 100,
          prefixes: 10,
          prefixShare: 0.5,
          varyPrompt: vary.prompt,
          varyOutput: vary.output,
          blockTokens: 64,
          seed: 1731,
        }),
        fleet: l40s(),
        kinds: [...others, routerNamed('dynamo_1731'), routerNamed('cache_aware'), bookedAfter(10), bookedAfter(100)],
        closedLoop: false,
        concurrency,
      })),
  }
}

const burst: PresetKind = {
  name: 'burst',
  doc: 'ai-dynamo/dynamo#1731, discussion: 1,000 requests at once on 8 x L40S. Does a router count its own placements?',
  notes: ['Overlap weight 0 balances blocks alone, as its authors advise for bursts.'],
  parts: () => [
    {
      name: 'burst',
      trace: sharedPrefixes({
        name: 'burst',
        requests: 1000,
        promptTokens: 7000,
        outputTokens: 100,
        prefixes: 10,
        prefixShare: 0.5,
        varyPrompt: 0.5,
        varyOutput: 0.5,
        blockTokens: 64,
        seed: 1000,
      }),
      fleet: l40s(),
      kinds: [
        ...others,
        gatewayKind(
          'active_blocks_overlap_0',
          { name: 'active_blocks', options: { overlapWeight: 0 } },
          { doc: 'Blocks alone.', source: 'ai-dynamo/dynamo#1731' },
        ),
        routerNamed('cache_aware'),
        routerNamed('llm_d'),
      ],
      closedLoop: false,
      concurrency: Infinity,
    },
  ],
}

const all: readonly PresetKind[] = [
  experiment1,
  experiment2,
  blocksPreset('blocks-fixed', 'all alike.', { prompt: 0, output: 0 }),
  blocksPreset('blocks-isl', 'prompts from half to one and a half as long.', { prompt: 0.5, output: 0 }),
  blocksPreset('blocks-osl', 'answers from half to one and a half as long.', { prompt: 0, output: 0.5 }),
  burst,
]

/** Names and descriptions, for help and documentation. */
export const presets: readonly { readonly name: string; readonly doc: string }[] = all.map(({ name, doc }) => ({
  name,
  doc,
}))

/** Throws a RangeError that lists all presets. */
export function presetNamed(name: string): Preset {
  const found = all.find((one) => one.name === name)
  if (found === undefined)
    throw new RangeError(`unknown preset "${name}"; presets: ${presets.map((one) => one.name).join(', ')}`)
  return { name, doc: found.doc, notes: found.notes ?? [], parts: found.parts() }
}
