/**
 * Conversations on four decode engines beside one prefill engine, against four engines of role `any`. Follow-up turns
 * need few new tokens on the engine that has the conversation, and a long prefill on any other.
 */
import type { SplitConfig } from '../../../src/core/contract/pool-config.ts'
import { profileNamed } from '../../simulator/src/profiles.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { type FleetRequest, type RequestLatency, SplitFleet } from '../disagg/fleet.ts'
import type { BenchResult, BenchRow } from '../result.ts'

const CONVERSATIONS = 30
const TURNS = 10
const FIRST_TOKENS = 2048
const USER_TOKENS = 200
const OUTPUT_TOKENS = 100
const THRESHOLD_TOKENS = 512
/** Time between two requests, ms: about a third of what four engines can serve. */
const GAP_MS = 400
/** Requests between two turns of one conversation: the earlier turn has ended. */
const MIN_DISTANCE = 10

interface Turn extends FleetRequest {
  readonly conversation: number
}

const MODES: Readonly<Record<string, SplitConfig | null>> = {
  any: null,
  never: splitBy('never'),
  threshold: splitBy('threshold', FIRST_TOKENS * 4),
  uncached: splitBy('uncached'),
  adaptive: splitBy('adaptive'),
  always: splitBy('always'),
}

/** Modes in which a follow-up turn is not split. */
const WHOLE_MODES = ['never', 'threshold', 'uncached']

export function decodeEngines(): BenchResult {
  const turns = turnsOf()
  const measured = Object.entries(MODES).map(([mode, split]) => measure(mode, split, turns))
  const of = (mode: string) => measured.find((one) => one.mode === mode)!
  const affinities = WHOLE_MODES.map((mode) => of(mode).follow_ups_at_cache / of('any').follow_ups_at_cache)
  const { split, split_needed: needed } = of('uncached')
  return {
    rows: measured.map((row) => ({ ...row })),
    headline: {
      decode_affinity: Math.min(...affinities),
      split_excess: Math.max(0, split - needed) / turns.length,
      decode_hit_share: of('uncached').hit_share ?? 0,
    },
  }
}

type ModeRow = BenchRow & {
  readonly mode: string
  readonly follow_ups_at_cache: number
  readonly split: number
  readonly split_needed: number
  readonly hit_share: number | null
}

function measure(mode: string, split: SplitConfig | null, turns: readonly Turn[]): ModeRow {
  const shape = split === null ? { name: mode, prefill: 0, decode: 4 } : { name: mode, prefill: 1, decode: 4 }
  const fleet = new SplitFleet(profileNamed('agentic'), shape, split, chance(7))
  fleet.run(turns)
  const served = [...fleet.served].sort((one, other) => one.ask.at - other.ask.at)
  const holders = new Map<number, string>()
  let atCache = 0
  let needed = 0
  for (const { ask, engine } of served) {
    const { conversation } = ask as Turn
    if (holders.get(conversation) === engine) atCache++
    else if (!holders.has(conversation)) needed++
    holders.set(conversation, engine)
  }
  return {
    mode,
    follow_ups: turns.length - CONVERSATIONS,
    follow_ups_at_cache: atCache,
    split: served.filter((one) => one.split).length,
    // Only the first turn has THRESHOLD_TOKENS that no engine has cached.
    split_needed: needed,
    hit_share: hitShare(served.filter((one) => !one.split)),
    ttft_ms: Math.round(served.reduce((sum, { ttft }) => sum + ttft, 0) / served.length),
  }
}

/** Share of the prompt tokens that the engines found in their prefix caches. */
function hitShare(served: readonly RequestLatency[]): number | null {
  const prompt = served.reduce((sum, { ask }) => sum + ask.promptTokens, 0)
  const cached = served.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0)
  return prompt === 0 ? null : Math.round((cached / prompt) * 1000) / 1000
}

/** All turns in random order; each prompt is the conversation so far, its last answer included. */
function turnsOf(): Turn[] {
  const random = chance(11)
  const done = Array<number>(CONVERSATIONS).fill(0)
  const lastAt = Array<number>(CONVERSATIONS).fill(-Infinity)
  const turns: Turn[] = []
  for (let place = 0; turns.length < CONVERSATIONS * TURNS; place++) {
    const ready = done.flatMap((count, at) => (count < TURNS && place - lastAt[at]! >= MIN_DISTANCE ? [at] : []))
    if (ready.length === 0) continue
    const conversation = ready[Math.floor(random() * ready.length)]!
    turns.push(turnOf(conversation, done[conversation]!, place * GAP_MS))
    done[conversation]!++
    lastAt[conversation] = place
  }
  return turns
}

function turnOf(conversation: number, number: number, at: number): Turn {
  const { blockTokens } = profileNamed('agentic').limits
  const promptTokens = FIRST_TOKENS + number * (USER_TOKENS + OUTPUT_TOKENS)
  const blocks = new Uint32Array(2 * Math.floor((promptTokens + OUTPUT_TOKENS) / blockTokens))
  for (let block = 0; block * 2 < blocks.length; block++) {
    blocks[2 * block] = block
    blocks[2 * block + 1] = conversation + 1
  }
  return { at, promptTokens, outputTokens: OUTPUT_TOKENS, blocks, conversation }
}

function splitBy(mode: SplitConfig['mode'], thresholdTokens = THRESHOLD_TOKENS): SplitConfig {
  return { mode, thresholdTokens, fallback: 'decode_only' }
}
