import { blockKeys } from '../block-keys.ts'
import type { KvLeg } from '../kv-peer.ts'
import type { SequenceSpec } from '../sequence.ts'
import { vocabularySize } from '../tokenizer.ts'
import { planAnswer, type AnswerPlan, type PlanInput } from './answer-plan.ts'
import type { Choice } from './job.ts'
import type { Body, Sampling } from './sampling.ts'
import type { Serving } from './serving.ts'
import { badRequest, busy, engineDead, internalError, invalidBody, unknownModel } from './wire-error.ts'

/** A checked request, before anything runs. */
export interface Ask {
  readonly body: Body
  /** Served name asked for: the base model or an adapter. */
  readonly model: string
  readonly prompts: readonly Uint32Array[]
  /** Content hashes of multimodal items. */
  readonly items: readonly number[]
  readonly sampling: Sampling
  readonly reasoning: boolean
  readonly tool: PlanInput['tool']
}

export interface Prepared {
  readonly choices: readonly Choice[]
  readonly leg: KvLeg
}

/** How long NIXL tries to reach an engine it does not know, as seen on a real server. */
const UNREACHABLE_AFTER_MS = 5100

/** The model of a request; absent means the base model, as in vLLM. */
export function modelOf(serving: Serving, body: Body): string {
  const { model } = body
  if (model === undefined || model === null || model === '') return serving.model
  if (typeof model !== 'string') {
    throw invalidBody('body.model', `{'type': 'string_type', 'loc': 'body.model', 'msg': 'Input should be a valid string', 'input': ${JSON.stringify(model)}}`)
  }
  if (!serving.served.includes(model)) throw unknownModel(model, serving.served)
  return model
}

/** Checks lengths, admission and hand-over, and lays out every choice. Throws a WireError. */
export async function prepare(serving: Serving, ask: Ask): Promise<Prepared> {
  for (const prompt of ask.prompts) checkPrompt(serving, prompt, ask.sampling)
  checkSalt(ask.body)
  admit(serving, ask.prompts.length * ask.sampling.n)
  const leg: KvLeg = serving.kv?.legOf(ask.body, ask.prompts[0]!.length) ?? { kind: 'whole' }
  if (leg.kind === 'fatal') {
    serving.crash()
    throw engineDead()
  }
  if (leg.kind === 'unreachable') {
    await new Promise<void>((resolve) => serving.clock.after(UNREACHABLE_AFTER_MS, resolve))
    throw internalError()
  }
  const encodeItems = ask.items.filter((item) => !serving.encoded(item)).length
  const choices: Choice[] = []
  for (const prompt of ask.prompts) {
    for (let index = 0; index < ask.sampling.n; index += 1) {
      const plan = planAnswer({
        model: ask.model,
        prompt,
        sampling: ask.sampling,
        roomTokens: serving.limits.maxModelLen - prompt.length,
        index,
        reasoning: ask.reasoning,
        tool: ask.tool,
      })
      choices.push({ index: choices.length, plan, spec: specOf(serving, ask, { prompt, plan, leg, encodeItems }) })
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

function specOf(serving: Serving, ask: Ask, { prompt, plan, leg, encodeItems }: ChoiceInput): SequenceSpec {
  const all = new Uint32Array(prompt.length + plan.tokens.length)
  all.set(prompt)
  all.set(plan.tokens, prompt.length)
  const salt = ask.body['cache_salt']
  return {
    promptTokens: prompt.length,
    outputTokens: plan.tokens.length,
    blocks: blockKeys(all, serving.limits.blockTokens, `${ask.model}\n${typeof salt === 'string' ? salt : ''}`),
    remote: leg.kind === 'decode',
    hold: leg.kind === 'prefill',
    encodeItems,
  }
}

/** Length and vocabulary of one prompt. */
export function checkPrompt(serving: Serving, prompt: Uint32Array, sampling: Sampling): void {
  const { maxModelLen } = serving.limits
  if (prompt.length === 0) throw badRequest('The decoder prompt cannot be empty')
  if (prompt.length >= maxModelLen) {
    throw badRequest(
      `This model's maximum context length is ${maxModelLen} tokens. However, your request has ${prompt.length} input tokens. Please reduce the length of the input messages.`,
      'input_tokens',
    )
  }
  const { maxTokens } = sampling
  if (maxTokens !== null && maxTokens > maxModelLen - prompt.length) {
    throw badRequest(
      `'max_tokens' or 'max_completion_tokens' is too large: ${maxTokens}. This model's maximum context length is ${maxModelLen} tokens and your request has ${prompt.length} input tokens (${maxTokens} > ${maxModelLen} - ${prompt.length}).`,
      'max_tokens',
    )
  }
  for (const id of prompt) if (id >= vocabularySize) throw badRequest(`Token id ${id} is out of vocabulary`)
}

function checkSalt(body: Body): void {
  if (body['cache_salt'] === '') throw badRequest("Parameter 'cache_salt' must be a non-empty string if provided.", 'cache_salt')
}

/** vLLM's `--max-num-queued-reqs` and `--max-num-queued-tokens`. */
export function admit(serving: Serving, sequences: number): void {
  const { model } = serving.driver
  const { maxNumQueuedReqs, maxNumQueuedTokens } = serving
  if (maxNumQueuedReqs !== null && model.running + model.waiting + sequences > maxNumQueuedReqs) {
    serving.metrics.rejected('max_num_queued_reqs')
    throw busy('requests')
  }
  if (maxNumQueuedTokens !== null && model.queuedPromptTokens() >= maxNumQueuedTokens) {
    serving.metrics.rejected('max_num_queued_tokens')
    throw busy('tokens')
  }
}
