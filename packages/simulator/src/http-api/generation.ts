import { blockKeys } from '../block-keys.ts'
import type { KvLeg } from '../kv-connector.ts'
import type { SequenceSpec } from '../sequence.ts'
import { type AnswerPlan, planAnswer, type PlanInput } from './answer-plan.ts'
import type { Body } from './body-fields.ts'
import type { Choice } from './job.ts'
import type { Sampling } from './sampling.ts'
import type { Serving } from './serving.ts'
import { badRequest, busy, engineDead, internalError, invalidBody, unknownModel } from './wire-error.ts'

/** A validated request. */
export interface InferenceInput {
  readonly body: Body
  /** Requested served name: the base model or an adapter. */
  readonly model: string
  readonly prompts: readonly Uint32Array[]
  /** Content hashes of multimodal items. */
  readonly items: readonly number[]
  readonly sampling: Sampling
  readonly reasoning: boolean
  readonly tool: PlanInput['tool']
}

interface PreparedGeneration {
  readonly choices: readonly Choice[]
  readonly leg: KvLeg
}

/** Reads the model of a request. An absent model means the base model, as in vLLM. */
export function modelOf(serving: Serving, body: Body): string {
  const { model } = body
  if (model === undefined || model === null || model === '') return serving.settings.model
  if (typeof model !== 'string') {
    throw invalidBody({
      type: 'string_type',
      loc: 'body.model',
      message: 'Input should be a valid string',
      input: model,
    })
  }
  if (!serving.settings.served.includes(model)) throw unknownModel(model, serving.settings.served)
  return model
}

/** Validates lengths, admission and KV transfer, and plans every choice. Throws a WireError. */
export async function prepare(serving: Serving, input: InferenceInput): Promise<PreparedGeneration> {
  for (const prompt of input.prompts) checkPrompt(serving, prompt, input.sampling.maxTokens)
  checkSalt(input.body)
  admit(serving, input.prompts.length * input.sampling.n)
  const leg: KvLeg = serving.kv?.legOf(input.body, input.prompts[0]!) ?? { kind: 'whole' }
  if (leg.kind === 'fatal') {
    serving.crash()
    throw engineDead()
  }
  if (leg.kind === 'unreachable') {
    await new Promise<void>((resolve) => serving.clock.after(serving.settings.connectLimitMs, resolve))
    throw internalError()
  }
  const encodeItems = input.items.filter((item) => !serving.encoded(item)).length
  const choices: Choice[] = []
  for (const prompt of input.prompts) {
    for (let index = 0; index < input.sampling.n; index += 1) {
      const plan = planAnswer({
        model: serving.hasWrongWeights ? `${input.model} with wrong weights` : input.model,
        prompt,
        sampling: input.sampling,
        roomTokens: serving.settings.limits.maxModelLen - prompt.length,
        index,
        reasoning: input.reasoning,
        tool: input.tool,
      })
      choices.push({ index: choices.length, plan, spec: specOf(serving, input, { prompt, plan, leg, encodeItems }) })
    }
  }
  return { choices, leg }
}

interface ChoiceInput {
  readonly prompt: Uint32Array
  readonly plan: AnswerPlan
  readonly leg: KvLeg
  readonly encodeItems: number
}

function specOf(
  serving: Serving,
  input: InferenceInput,
  { prompt, plan, leg, encodeItems }: ChoiceInput,
): SequenceSpec {
  const all = new Uint32Array(prompt.length + plan.tokens.length)
  all.set(prompt)
  all.set(plan.tokens, prompt.length)
  const given = input.body['cache_salt']
  const salt = typeof given === 'string' ? given : null
  return {
    promptTokens: prompt.length,
    outputTokens: plan.tokens.length,
    blocks: blockKeys(all, serving.settings.limits.blockTokens, `${input.model}\n${salt ?? ''}`),
    ...(serving.settings.kvEvents
      ? { content: { tokens: all, salt, adapter: input.model === serving.settings.model ? null : input.model } }
      : {}),
    computesAll: input.sampling.scoresPrompt,
    remote: leg.kind === 'decode',
    hold: leg.kind === 'prefill' && leg.hold,
    encodeItems,
  }
}

/** Validates length and vocabulary of one prompt. */
export function checkPrompt(serving: Serving, prompt: Uint32Array, maxTokens: number | null): void {
  const { maxModelLen } = serving.settings.limits
  if (maxTokens !== null && maxTokens > maxModelLen) {
    throw badRequest(
      `max_tokens=${maxTokens} cannot be greater than max_model_len=${maxModelLen}. Please request fewer ` +
        'output tokens.',
      'max_tokens',
      maxTokens,
    )
  }
  const context = `This model's maximum context length is ${maxModelLen} tokens. However, `
  if (prompt.length >= maxModelLen) {
    throw badRequest(
      `${context}your prompt contains at least ${maxModelLen + 1} input tokens, which exceeds this limit even ` +
        'without any output tokens. Please reduce the length of the input prompt.',
      'input_tokens',
      maxModelLen + 1,
    )
  }
  if (maxTokens !== null && prompt.length + maxTokens > maxModelLen) {
    const minPromptTokens = maxModelLen - maxTokens + 1
    throw badRequest(
      `${context}you requested ${maxTokens} output tokens and your prompt contains at least ${minPromptTokens} input ` +
        `tokens, for a total of at least ${maxModelLen + 1} tokens. Please reduce the length of the input prompt ` +
        'or the number of requested output tokens.',
      'input_tokens',
      minPromptTokens,
    )
  }
}

function checkSalt(body: Body): void {
  if (body['cache_salt'] === '')
    throw badRequest("Parameter 'cache_salt' must be a non-empty string if provided.", 'cache_salt')
}

/** vLLM's `--max-num-queued-reqs` and `--max-num-queued-tokens`. */
export function admit(serving: Serving, sequences: number): void {
  const { model } = serving.driver
  const { maxNumQueuedReqs, maxNumQueuedTokens } = serving.settings
  if (maxNumQueuedReqs !== null && model.running + model.waiting + sequences > maxNumQueuedReqs) {
    serving.metrics.rejected('max_num_queued_reqs')
    throw busy('requests')
  }
  if (maxNumQueuedTokens !== null && model.queuedPromptTokens() >= maxNumQueuedTokens) {
    serving.metrics.rejected('max_num_queued_tokens')
    throw busy('tokens')
  }
}
