/** TensorRT-LLM's split requests: the context engine's answer names what the generation engine fetches. */
import { contextParams, DISAGGREGATED_PARAMS, generationOf, transferIdOf } from '../../engines/tensorrt-disagg.ts'
import type { JsonObject } from '../../core/json.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { bodyAt, type LegResult, wholeAnswer } from './final-leg.ts'
import { prefillLegWith } from './prefill-leg.ts'

/** Returns why a request cannot be split. null: it can. */
export function unsplittableByTensorrt({ asCompletion, media }: Protocol, json: JsonObject): string | null {
  if (asCompletion === null) return 'tensorrt splits chats and completions only'
  // The second leg has the token ids of the prompt, and no images.
  return (media?.(json) ?? []).length > 0 ? 'tensorrt transfers no images' : null
}

export function tensorrtLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, placed, ports } = attempt
  const transferId = transferIdOf(ports.random())
  const whole = wholeAnswer(exchange)
  // A chat keeps its messages; the ids win.
  const idsField = exchange.protocol.asCompletion?.converts === true ? 'prompt_token_ids' : 'prompt'
  return prefillLegWith(attempt, prefill, {
    body: bodyAt(attempt, prefill, {
      set: { ...whole.set, [DISAGGREGATED_PARAMS]: contextParams(transferId) },
      remove: whole.remove,
    }),
    decodeBody({ json }) {
      const generation = generationOf(json, transferId)
      if (generation === 'none' || generation === 'final') return generation
      const set = { [DISAGGREGATED_PARAMS]: generation.params, [idsField]: generation.promptTokenIds }
      return bodyAt(attempt, placed.engine, { set, remove: [] })
    },
  })
}
