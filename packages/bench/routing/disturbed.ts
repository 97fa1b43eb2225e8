/**
 * Two equal engines, one of which answers late for a while. The delay is outside the engine, so its prefill cost is
 * unchanged; afterwards it must get its share of new prompts again, and every prompt whose prefix it has cached.
 */
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { PAYLOAD_VERSION } from '../../../src/core/contract/payload-version.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { readAdmission, readEngine } from '../../../src/core/contract/decode.ts'
import { prefillSeconds } from '../../../src/core/latency/prefill-cost-model.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { median } from '../median.ts'
import type { BenchResult } from '../result.ts'

const BLOCK_TOKENS = 16
const FIXED_MS = 20
const TOKEN_MS = 0.8
const OUTPUT_TOKENS = 8
const OUTPUT_TOKEN_MS = 10
const ENGINES = ['a', 'b'] as const
type EngineId = (typeof ENGINES)[number]

/** New prompt, about 0.5 s. */
const PROMPT_TOKENS = 600
const TURN_TOKENS = 16
const WARM_REQUESTS = 60
const DELAYED_TURNS = 14
const DELAY_MS = 150
/** Random variation of an engine's times, as a share. */
const NOISE = 0.1
/** Requests after the disturbance, as in the measured case: 24 new prompts, 12 turns that the delayed engine has. */
const AFTER_REQUESTS = 36
const NEW_OF_THREE = 2
const GAP_MS = 860
const BACK_AFTER = 10
/** Prompt for which the learned cost is compared with the true one. */
const TYPICAL = { promptTokens: PROMPT_TOKENS, cachedTokens: 0 }

export interface Disturbance {
  readonly seed: number
  readonly delayMs?: number
  /** Whether no request after the disturbance has a cached prefix: nothing but trials corrects the cost. */
  readonly onlyNew?: boolean
}

export interface Recovery {
  /** Requests after the disturbance that went to the other engine. */
  readonly away: number
  /** New prompts among them. */
  readonly newAway: number
  /** Turns whose prefix the delayed engine has, sent to the other engine. */
  readonly turnsAway: number
  /**
   * |estimated - true| / true prefill time of a new prompt on the delayed engine: at the end of the delay, and later.
   */
  readonly errorAtEnd: number
  readonly errorAfterTen: number
  /** Share of the less used engine in all new prompts before the disturbance. */
  readonly minShare: number
}

/** Serves the measured case in virtual time. Requests follow one another, so that no queue affects the choice. */
export function disturb({ seed, delayMs = DELAY_MS, onlyNew = false }: Disturbance): Recovery {
  const pair = new Pair(chance(seed))
  const before = { a: 0, b: 0 }
  for (let at = 0; at < WARM_REQUESTS; at++) {
    if (at % 3 < NEW_OF_THREE) before[pair.open()]++
    else pair.turn(at % 2 === 0 ? 'a' : 'b')
  }
  pair.delayMs = delayMs
  for (let at = 0; at < DELAYED_TURNS; at++) pair.turn('b')
  pair.delayMs = 0
  const errorAtEnd = pair.error('b')
  let newAway = 0
  let turnsAway = 0
  let errorAfterTen = 0
  for (let at = 0; at < AFTER_REQUESTS; at++) {
    if (onlyNew || at % 3 < NEW_OF_THREE) newAway += Number(pair.open() === 'a')
    else turnsAway += Number(pair.turn('b') === 'a')
    if (at + 1 === BACK_AFTER) errorAfterTen = pair.error('b')
  }
  const minShare = Math.min(before.a, before.b) / (before.a + before.b)
  return { away: newAway + turnsAway, newAway, turnsAway, errorAtEnd, errorAfterTen, minShare }
}

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]

/** The headline is of the median seed: an even split of the new prompts is 12 away. */
export function disturbed(): BenchResult {
  const found = SEEDS.flatMap((seed) => [
    { seed, delayMs: 0, ...disturb({ seed, delayMs: 0 }) },
    { seed, delayMs: DELAY_MS, ...disturb({ seed }) },
  ])
  const late = found.filter(({ delayMs }) => delayMs > 0)
  return {
    rows: found.map(({ seed, delayMs, away, newAway, turnsAway, errorAtEnd, errorAfterTen, minShare }) => ({
      seed,
      delay_ms: delayMs,
      away,
      new_away: newAway,
      turns_away: turnsAway,
      cost_error_at_end: round(errorAtEnd),
      cost_error_after_10: round(errorAfterTen),
      least_share: round(minShare),
    })),
    headline: {
      disturbed_away_of_36: median(late.map(({ away }) => away)),
      disturbed_turns_away_of_12: Math.max(...late.map(({ turnsAway }) => turnsAway)),
      disturbed_cost_error_after_10: round(Math.max(...late.map(({ errorAfterTen }) => errorAfterTen))),
      equal_engines_least_share: round(Math.min(...found.map(({ minShare }) => minShare))),
    },
  }
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}

/** Conversation: its blocks so far and the engine that has them. */
interface Conversation {
  readonly id: number
  tokens: number
  engine: EngineId
}

class Pair {
  /** Delay of the answers of engine b. */
  delayMs = 0
  readonly #state: PoolState
  readonly #random: () => number
  readonly #conversations: Conversation[] = []
  #now = 1_000_000
  #requests = 0

  constructor(random: () => number) {
    this.#random = random
    this.#state = new PoolState({ random, epoch: 'bench' })
    this.#state.configure(1, pool(), 0)
  }

  /** Sends a new prompt; returns the engine. */
  open(): EngineId {
    const conversation: Conversation = { id: this.#requests + 1, tokens: PROMPT_TOKENS, engine: 'a' }
    conversation.engine = this.#ask(conversation, () => PROMPT_TOKENS)
    this.#conversations.push(conversation)
    return conversation.engine
  }

  /** Sends the next turn of the oldest conversation that this engine has cached; returns the engine. */
  turn(of: EngineId): EngineId {
    const place = this.#conversations.findIndex(({ engine }) => engine === of)
    if (place === -1) return this.open()
    const [conversation] = this.#conversations.splice(place, 1) as [Conversation]
    this.#conversations.push(conversation)
    const { tokens, engine: holder } = conversation
    conversation.tokens += TURN_TOKENS
    conversation.engine = this.#ask(conversation, (engine) =>
      engine === holder ? conversation.tokens - tokens : conversation.tokens,
    )
    return conversation.engine
  }

  /** |estimated - true| / true prefill time of a new prompt. */
  error(engine: EngineId): number {
    const digest = this.#state.digest(this.#now).engines.find(({ id }) => id === engine)
    const believedS = prefillSeconds(digest!.learned!.costModel, TYPICAL)
    const trueS = (FIXED_MS + TOKEN_MS * PROMPT_TOKENS) / 1000
    return Math.abs(believedS / trueS - 1)
  }

  #ask({ id, tokens }: Conversation, newTokensAt: (engine: EngineId) => number): EngineId {
    const at = this.#now
    const admitted = this.#state.admit(admissionOf(this.#requests++, id, tokens), at)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { key, placement } = admitted
    if (placement.kind !== 'whole') throw new Error(`placement ${placement.kind}; a pool without roles has whole ones`)
    const engine = placement.engine as EngineId
    const newTokens = newTokensAt(engine)
    const ownMs = (FIXED_MS + TOKEN_MS * newTokens) * (1 + NOISE * (2 * this.#random() - 1))
    const ttft = ownMs + (engine === 'b' ? this.delayMs : 0)
    this.#state.firstToken(key, { ttft }, at + ttft)
    const endedAt = at + ttft + OUTPUT_TOKENS * OUTPUT_TOKEN_MS
    this.#state.release(key, outcomeOf(tokens, tokens - newTokens, ttft), endedAt)
    this.#now = Math.max(at + GAP_MS, endedAt)
    return engine
  }
}

function outcomeOf(promptTokens: number, cachedTokens: number, ttft: number): ReturnType<typeof endedAs> {
  return {
    version: PAYLOAD_VERSION,
    result: 'complete',
    failure: null,
    status: 200,
    usage: { promptTokens, completionTokens: OUTPUT_TOKENS, cachedTokens },
    outputEvents: OUTPUT_TOKENS,
    stages: { ttft },
  }
}

function admissionOf(order: number, conversation: number, promptTokens: number): ReturnType<typeof readAdmission> {
  const blocks = new Uint32Array(2 * Math.floor(promptTokens / BLOCK_TOKENS))
  for (let at = 0; at < blocks.length; at += 2) {
    blocks[at] = at
    blocks[at + 1] = conversation
  }
  return readAdmission({
    id: `r${order}`,
    configVersion: 1,
    model: 'bench',
    promptTokens,
    streams: true,
    tokenSource: 'exact',
    blocks,
  })
}

function pool(): PoolConfig {
  return {
    cluster: 'bench',
    pool: 'bench',
    blockTokens: BLOCK_TOKENS,
    policy: { name: 'predicted', options: {} },
    shadow: null,
    split: { mode: 'never', thresholdTokens: 0, fallback: 'decode_only' },
    leaseMs: 1e12,
    retry: { share: 0.1, minPerS: 1 },
    circuit: { failures: 5, openMs: 1000 },
    statsIntervalMs: 10_000,
    indexEntries: 100_000,
    engines: ENGINES.map((id) => readEngine({ id })),
  }
}
