import { hashText } from '../block-keys.ts'
import { decode, encode } from '../tokenizer.ts'
import type { Sampling } from './sampling.ts'
import { sampleOf } from './schema-sample.ts'
import { generate } from './text-generator.ts'

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
  return truncateAtStop(plan, sampling)
}

/** Ends the answer at the first stop string. The token that completes it is still computed. */
function truncateAtStop(plan: AnswerPlan, sampling: Sampling): AnswerPlan {
  const text = plan.pieces.join('')
  let stopAt = -1
  let found = ''
  for (const stop of sampling.stop) {
    const at = text.indexOf(stop)
    if (at >= 0 && (stopAt < 0 || at < stopAt)) {
      stopAt = at
      found = stop
    }
  }
  if (stopAt < 0) return plan
  const pieces: string[] = []
  let length = 0
  for (const piece of plan.pieces) {
    if (length >= stopAt + found.length) break
    pieces.push(piece.slice(0, Math.max(0, stopAt - length)))
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
