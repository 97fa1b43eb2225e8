import { hashText, rollHash } from '../block-pool.ts'
import { decode, encode } from '../tokenizer.ts'
import type { Sampling } from './sampling.ts'

/**
 * The simulated model's "weights". The next word depends only on the previous tokens and the model's name: greedy
 * answers are stable, an answer continued elsewhere is unchanged, and a prefill/decode pair gives the same answer as
 * one engine.
 */
const words = (
  'the and for are but not you all can her was one our out day get has him his how man new now old see two way who ' +
  'boy did its let put say she too use sun sky sea air ice dew fog fox owl cat dog cow hen bee ant elm oak ivy fig ' +
  'tea pie jam egg oil red tan big shy odd raw wet dry hot icy low far few own any due may ask try run sit eat fly ' +
  'row sow mow dig cut mix add win pay buy sew hum nod'
).split(' ')
// Each word is one token, so an answer that returns in the next prompt has the tokens it was generated with.
const wordIds = words.map((word) => encode(` ${word}`)[0]!)
const STOP_ODDS = 96

export interface GenerationLimits {
  /** Most tokens to generate. */
  readonly maxTokens: number
  /** Stop where the model would, about every hundredth token; false: continue to `maxTokens`. */
  readonly mayStop: boolean
  readonly minTokens: number
}

export interface Generation {
  readonly tokens: Uint32Array
  /** The model stopped before the limit. */
  readonly stopped: boolean
}

/** Generates the answer of a model to these tokens. `variant` distinguishes several answers to one prompt. */
export function generate(model: string, prompt: Uint32Array, limits: GenerationLimits, variant = 0): Generation {
  let state = hashText(model, variant)
  for (let at = 0; at < prompt.length; at += 1) state = rollHash(state, prompt[at]!)
  const tokens = new Uint32Array(limits.maxTokens)
  for (let count = 0; count < limits.maxTokens; count += 1) {
    if (limits.mayStop && count >= limits.minTokens && count > 0 && state % STOP_ODDS === 0) {
      return { tokens: tokens.slice(0, count), stopped: true }
    }
    const token = wordIds[(state >>> 8) % wordIds.length]!
    tokens[count] = token
    state = rollHash(state, token)
  }
  return { tokens, stopped: false }
}

/** One choice of an answer, known in advance because the model is deterministic. */
export interface AnswerPlan {
  readonly tokens: Uint32Array
  /** Text of each token. */
  readonly pieces: readonly string[]
  readonly finish: 'stop' | 'length' | 'tool_calls'
  readonly stopReason: string | null
  /** Number of leading reasoning tokens. */
  readonly reasoningTokens: number
  readonly tool: { readonly id: string; readonly name: string } | null
}

export interface PlanInput {
  readonly model: string
  readonly prompt: Uint32Array
  readonly sampling: Sampling
  /** Context left after the prompt. */
  readonly roomTokens: number
  /** Index among several answers to one prompt. */
  readonly index: number
  readonly reasoning: boolean
  /** Function that must be called, with its JSON schema; null: none. */
  readonly tool: { readonly name: string; readonly parameters: unknown; readonly named: boolean } | null
}

export function planAnswer(input: PlanInput): AnswerPlan {
  const { sampling } = input
  const limit = Math.min(sampling.maxTokens ?? input.roomTokens, input.roomTokens)
  if (input.tool !== null) return planToolCall(input, input.tool, limit)
  const variant = sampling.temperature === 0 ? 0 : input.index
  const { tokens, stopped } = generate(
    input.model,
    input.prompt,
    // A request with a length gets exactly that length, as from the random weights that engines are tested with.
    { maxTokens: limit, mayStop: sampling.maxTokens === null && !sampling.ignoreEos, minTokens: sampling.minTokens },
    variant,
  )
  const plan: AnswerPlan = {
    tokens,
    pieces: Array.from(tokens, (token) => decode([token])),
    finish: stopped ? 'stop' : 'length',
    stopReason: null,
    reasoningTokens: input.reasoning ? Math.floor(tokens.length / 3) : 0,
    tool: null,
  }
  return cutAtStop(plan, sampling)
}

/** Ends the answer at the first stop string. The token that completes it is still computed. */
function cutAtStop(plan: AnswerPlan, sampling: Sampling): AnswerPlan {
  const text = plan.pieces.join('')
  let cutAt = -1
  let found = ''
  for (const stop of sampling.stop) {
    const at = text.indexOf(stop)
    if (at >= 0 && (cutAt < 0 || at < cutAt)) {
      cutAt = at
      found = stop
    }
  }
  if (cutAt < 0) return plan
  const pieces: string[] = []
  let length = 0
  for (const piece of plan.pieces) {
    if (length >= cutAt + found.length) break
    pieces.push(piece.slice(0, Math.max(0, cutAt - length)))
    length += piece.length
  }
  return { ...plan, tokens: plan.tokens.slice(0, pieces.length), pieces, finish: 'stop', stopReason: found }
}

function planToolCall(input: PlanInput, tool: NonNullable<PlanInput['tool']>, limit: number): AnswerPlan {
  const seed = hashText(tool.name, input.prompt.length)
  const text = JSON.stringify(sampleOf(tool.parameters, seed))
  const whole = encode(text)
  const tokens = whole.slice(0, Math.max(1, limit))
  const pieces = Array.from(tokens, (token) => decode([token]))
  const ended = tokens.length === whole.length
  return {
    tokens,
    pieces,
    finish: ended ? (tool.named ? 'stop' : 'tool_calls') : 'length',
    stopReason: null,
    reasoningTokens: 0,
    tool: { id: `chatcmpl-tool-${seed.toString(16).padStart(16, '0')}`, name: tool.name },
  }
}

/** Generates a value that satisfies the common parts of a JSON schema, deterministic by seed. */
export function sampleOf(schema: unknown, seed: number, depth = 0): unknown {
  if (typeof schema !== 'object' || schema === null || depth > 8) return null
  const node = schema as Readonly<Record<string, unknown>>
  if ('const' in node) return node['const']
  if (Array.isArray(node['enum'])) return node['enum'][seed % node['enum'].length]
  const options = node['anyOf'] ?? node['oneOf']
  if (Array.isArray(options)) return sampleOf(options[0], seed, depth + 1)
  const type = Array.isArray(node['type']) ? node['type'][0] : node['type']
  if (type === 'object' || (type === undefined && 'properties' in node)) {
    const properties = Object.entries((node['properties'] ?? {}) as Record<string, unknown>)
    return Object.fromEntries(properties.map(([key, value]) => [key, sampleOf(value, hashText(key, seed), depth + 1)]))
  }
  if (type === 'array') return [sampleOf(node['items'], seed, depth + 1)]
  if (type === 'integer' || type === 'number') return Number(node['minimum'] ?? 0) + (seed % 10)
  if (type === 'boolean') return seed % 2 === 0
  if (type === 'string') return ['paris', 'oslo', 'rome', 'lima'][seed % 4]
  return null
}
