/**
 * Fields of TensorRT-LLM's split requests in its style `context_first` (serve/openai_disagg_service.py): the context
 * engine returns parameters and token ids, with which the generation engine continues.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** Ids below are those of engines themselves (llmapi/disagg_utils.py, `MIN_GLOBAL_ID` of 2^40 to 2^42). */
const MIN_TRANSFER_ID = 2 ** 42
/** JSON carries numbers below exactly. */
const MAX_TRANSFER_ID = 2 ** 53

/** `DisaggScheduleStyle.CONTEXT_FIRST`. */
const CONTEXT_FIRST = 0

/** Finish reasons of a context request whose answer goes on. */
const UNFINISHED: ReadonlySet<unknown> = new Set(['length', 'not_finished'])

/** Field of both legs. */
export const DISAGGREGATED_PARAMS = 'disaggregated_params'

/** @param random from 0 to below 1 */
export const transferIdOf = (random: number): number =>
  MIN_TRANSFER_ID + Math.floor(random * (MAX_TRANSFER_ID - MIN_TRANSFER_ID))

export const contextParams = (transferId: number): string =>
  JSON.stringify({ request_type: 'context_only', disagg_request_id: transferId, schedule_style: CONTEXT_FIRST })

/** What the generation request has in addition, as JSON texts. */
interface Generation {
  readonly params: string
  readonly promptTokenIds: string
}

/**
 * Reads the answer of a context request. `final`: it is the whole answer, at its first token. `none`: the engine hands
 * nothing over.
 */
export function generationOf(answer: JsonObject, transferId: number): Generation | 'none' | 'final' {
  const choice: unknown = Array.isArray(answer['choices']) ? answer['choices'][0] : null
  const ids = answer['prompt_token_ids']
  if (!isJsonObject(choice)) return 'none'
  if (!UNFINISHED.has(choice['finish_reason'])) return 'final'
  const params = choice[DISAGGREGATED_PARAMS]
  if (!isJsonObject(params) || !Array.isArray(ids)) return 'none'
  const changed = {
    ...params,
    request_type: 'generation_only',
    schedule_style: CONTEXT_FIRST,
    disagg_request_id: transferId,
    ...(isJsonObject(answer['usage']) ? { ctx_usage: answer['usage'] } : {}),
  }
  return { params: JSON.stringify(changed), promptTokenIds: JSON.stringify(ids) }
}
