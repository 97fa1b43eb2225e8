import { blockKeys } from '../block-pool.ts'
import type { KvLeg } from '../kv-connector.ts'
import type { SequenceSpec, Sequence } from '../sequence.ts'
import { planAnswer, type AnswerPlan, type PlanInput } from './answer-plan.ts'
import type { Body, Sampling } from './sampling.ts'
import type { Serving } from './serving.ts'
import { badRequest, busy, engineDead, internalError, invalidBody, unknownModel } from './wire-error.ts'
import type { Driver } from '../driver.ts'

/** One choice of a request in the engine. */
export interface Choice {
  readonly index: number
  readonly plan: AnswerPlan
  readonly spec: SequenceSpec
}

export interface JobEvents {
  /** `choice` received its `count`-th token. */
  token?(choice: Choice, count: number, sequence: Sequence): void
  /** All choices ended. `aborted`: the engine aborted one (sleep, pause). */
  done(sequences: readonly Sequence[], aborted: boolean): void
}

/** Runs all choices of a request. The returned function aborts the rest; no callback runs after it. */
export function runJob(driver: Driver, choices: readonly Choice[], events: JobEvents): () => void {
  let left = choices.length
  let cancelled = false
  let aborted = false
  const sequences: Sequence[] = []
  for (const choice of choices) {
    sequences.push(
      driver.submit(choice.spec, {
        token: (sequence) => {
          if (!cancelled) events.token?.(choice, sequence.outputs, sequence)
        },
        ended: (sequence) => {
          left -= 1
          aborted ||= sequence.state === 'aborted'
          if (left === 0 && !cancelled) events.done(sequences, aborted)
        },
      }),
    )
  }
  return () => {
    cancelled = true
    for (const sequence of sequences) driver.abort(sequence)
  }
}

/** A validated request. */
export interface Ask {
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

export interface Prepared {
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
export async function prepare(serving: Serving, ask: Ask): Promise<Prepared> {
  for (const prompt of ask.prompts) checkPrompt(serving, prompt, ask.sampling.maxTokens)
  checkSalt(ask.body)
  admit(serving, ask.prompts.length * ask.sampling.n)
  const leg: KvLeg = serving.kv?.legOf(ask.body, ask.prompts[0]!) ?? { kind: 'whole' }
  if (leg.kind === 'fatal') {
    serving.crash()
    throw engineDead()
  }
  if (leg.kind === 'unreachable') {
    await new Promise<void>((resolve) => serving.clock.after(serving.settings.connectLimitMs, resolve))
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
        roomTokens: serving.settings.limits.maxModelLen - prompt.length,
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
  const given = ask.body['cache_salt']
  const salt = typeof given === 'string' ? given : null
  return {
    promptTokens: prompt.length,
    outputTokens: plan.tokens.length,
    blocks: blockKeys(all, serving.settings.limits.blockTokens, `${ask.model}\n${salt ?? ''}`),
    ...(serving.settings.kvEvents
      ? { content: { tokens: all, salt, adapter: ask.model === serving.settings.model ? null : ask.model } }
      : {}),
    computesAll: ask.sampling.scoresPrompt,
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
    const least = maxModelLen - maxTokens + 1
    throw badRequest(
      `${context}you requested ${maxTokens} output tokens and your prompt contains at least ${least} input ` +
        `tokens, for a total of at least ${maxModelLen + 1} tokens. Please reduce the length of the input prompt ` +
        'or the number of requested output tokens.',
      'input_tokens',
      least,
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
