/** Dynamo's `nvext.agent_hints` as other names of the gateway's own request options. */
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** Place of the hints, for error messages. */
export const HINTS = 'nvext.agent_hints'

/** Hints that are options, as Dynamo names them. */
interface AgentHints {
  /** Higher is more urgent. */
  readonly priority?: number | null | undefined
  /** Expected output length in tokens. */
  readonly osl?: number | null | undefined
}

/** Options under the gateway's names. */
interface HintedOptions {
  readonly priority?: number
  readonly expected_output_tokens?: number
}

/** undefined: the body has no hints. */
export function agentHints({ nvext }: JsonObject): JsonObject | undefined {
  const hints = isJsonObject(nvext) ? nvext['agent_hints'] : undefined
  return isJsonObject(hints) ? hints : undefined
}

/** Dynamo serves higher priorities first, vLLM and the gateway lower ones. */
export const hintedOptions = ({ priority, osl }: AgentHints): HintedOptions => ({
  // -0 would be another number in JSON.
  ...(priority === undefined || priority === null ? {} : { priority: priority === 0 ? 0 : -priority }),
  ...(osl === undefined || osl === null ? {} : { expected_output_tokens: osl }),
})
