/** Dynamo's `nvext.agent_hints` as other names of the gateway's own request options. */
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** Values as received; the schema of the `firstlight` object checks them. */
interface HintedOptions {
  readonly priority?: unknown
  readonly expected_output_tokens?: unknown
}

/**
 * Options in `nvext.agent_hints`. Dynamo serves higher priorities first, vLLM and the gateway lower ones.
 * @testing
 */
export function hintedOptions(body: JsonObject): HintedOptions {
  const { nvext } = body
  const hints = isJsonObject(nvext) ? nvext['agent_hints'] : undefined
  if (!isJsonObject(hints)) return {}
  const { priority, osl } = hints
  return {
    ...(priority === undefined || priority === null
      ? {}
      : { priority: typeof priority === 'number' && priority !== 0 ? -priority : priority }),
    ...(osl === undefined || osl === null ? {} : { expected_output_tokens: osl }),
  }
}
