/**
 * Puts a first token from the prefill engine in front of a completion, and converts the completion to an answer of the
 * client's protocol.
 */
import type { JsonObject } from '../../core/json.ts'
import type { CompletionForm } from '../../protocols/completion-form.ts'
import type { AnswerTransform } from '../relay/answer-transform.ts'

/** Creates the transform of one response: the token is sent once. */
export function firstTokenTransform(form: CompletionForm, firstText: string): AnswerTransform {
  let isOpened = false
  return {
    event(payload) {
      const chunk = chunkOf(payload)
      // The end, an error, or an unknown record.
      if (chunk === null) return [payload]
      const opening = isOpened ? [] : form.opening(chunk, firstText)
      isOpened = true
      return [...opening, form.chunk(withShiftedUsage(chunk))].map((one) => JSON.stringify(one))
    },
    whole: (answer) => form.answer(withShiftedUsage(answer), firstText),
    usage: (counted) => ({
      ...counted,
      promptTokens: counted.promptTokens - 1,
      completionTokens: counted.completionTokens + 1,
    }),
  }
}

/** null: not a chunk of a completion. */
function chunkOf(payload: string): JsonObject | null {
  if (!payload.startsWith('{')) return null
  try {
    const record = JSON.parse(payload) as JsonObject
    return Array.isArray(record['choices']) ? record : null
  } catch {
    return null
  }
}

/** The prompt of the decode leg contained the first token, which is output. */
function withShiftedUsage(record: JsonObject): JsonObject {
  const { usage } = record
  if (typeof usage !== 'object' || usage === null) return record
  const counts = usage as JsonObject
  return {
    ...record,
    usage: {
      ...counts,
      prompt_tokens: Number(counts['prompt_tokens']) - 1,
      completion_tokens: Number(counts['completion_tokens']) + 1,
    },
  }
}
