/**
 * Puts a first token from the prefill engine in front of a completion, and converts the completion to a chat response
 * if the client asked for a chat.
 */
import type { JsonObject } from '../../core/json.ts'
import type { AnswerTransform } from '../relay/answer-transform.ts'

/** Creates the transform of one response: the token is sent once. */
export function firstTokenTransform(isChat: boolean, firstText: string): AnswerTransform {
  let isOpened = false
  return {
    event(payload) {
      const record = recordOf(payload)
      // The end, an error, or an unknown record.
      if (record === null) return [payload]
      const opening = isOpened ? [] : (isChat ? chatOpening : completionOpening)(record, firstText)
      isOpened = true
      return [...opening, isChat ? chatChunk(record) : completionChunk(record)].map((one) => JSON.stringify(one))
    },
    whole: (answer) => (isChat ? chatAnswer(answer, firstText) : completionAnswer(answer, firstText)),
    usage: (counted) => ({
      ...counted,
      promptTokens: counted.promptTokens - 1,
      completionTokens: counted.completionTokens + 1,
    }),
  }
}

/** null: not a record of a completion. */
function recordOf(payload: string): JsonObject | null {
  if (!payload.startsWith('{')) return null
  try {
    const record = JSON.parse(payload) as JsonObject
    return Array.isArray(record['choices']) ? record : null
  } catch {
    return null
  }
}

const choicesOf = ({ choices }: JsonObject): readonly JsonObject[] => choices as JsonObject[]

/** The prompt of the decode leg contained the first token, which is output. */
function usageOf({ usage }: JsonObject): JsonObject {
  if (typeof usage !== 'object' || usage === null) return usage === undefined ? {} : { usage }
  const counts = usage as JsonObject
  return {
    usage: {
      ...counts,
      prompt_tokens: Number(counts['prompt_tokens']) - 1,
      completion_tokens: Number(counts['completion_tokens']) + 1,
    },
  }
}

const chatId = (id: unknown): string => `chat${String(id)}`

function completionChunk(record: JsonObject): JsonObject {
  return { ...record, ...usageOf(record) }
}

function completionOpening(record: JsonObject, text: string): JsonObject[] {
  const { id, object, created, model } = record
  return [
    {
      id,
      object,
      created,
      model,
      choices: [
        {
          index: 0,
          text,
          logprobs: null,
          finish_reason: null,
          stop_reason: null,
          prompt_token_ids: null,
          token_ids: null,
        },
      ],
    },
  ]
}

function chatChunk(record: JsonObject): JsonObject {
  const choices = choicesOf(record).map(({ index, text, finish_reason: finish, stop_reason: stop }) => ({
    index,
    delta: { content: text },
    logprobs: null,
    finish_reason: finish,
    ...(finish === null ? {} : { stop_reason: stop ?? null }),
    token_ids: null,
  }))
  return { ...record, id: chatId(record['id']), object: 'chat.completion.chunk', choices, ...usageOf(record) }
}

/** Starts a chat as vLLM does: the role without text, then the first token. */
function chatOpening({ id, created, model }: JsonObject, text: string): JsonObject[] {
  const base = { id: chatId(id), object: 'chat.completion.chunk', created, model }
  return [
    {
      ...base,
      choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
      prompt_token_ids: null,
      prompt_text: null,
    },
    {
      ...base,
      choices: [{ index: 0, delta: { content: text }, logprobs: null, finish_reason: null, token_ids: null }],
    },
  ]
}

function completionAnswer(answer: JsonObject, first: string): JsonObject {
  const choices = choicesOf(answer).map((choice) => ({ ...choice, text: first + String(choice['text'] ?? '') }))
  return { ...answer, choices, ...usageOf(answer) }
}

/** Builds vLLM's chat response, with the same fields in the same order. */
function chatAnswer(answer: JsonObject, first: string): JsonObject {
  const {
    id,
    created,
    model,
    service_tier = null,
    system_fingerprint,
    kv_transfer_params = null,
    ec_transfer_params = null,
    metrics,
  } = answer
  return {
    id: chatId(id),
    object: 'chat.completion',
    created,
    model,
    choices: choicesOf(answer).map(({ index, text, finish_reason: finish, stop_reason: stop = null }) => ({
      index,
      message: {
        role: 'assistant',
        content: first + String(text ?? ''),
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        reasoning: null,
      },
      logprobs: null,
      finish_reason: finish,
      stop_reason: stop,
      token_ids: null,
      routed_experts: null,
    })),
    service_tier,
    ...(system_fingerprint === undefined ? {} : { system_fingerprint }),
    ...usageOf(answer),
    prompt_logprobs: null,
    prompt_token_ids: null,
    prompt_text: null,
    kv_transfer_params,
    ec_transfer_params,
    ...(metrics === undefined ? {} : { metrics }),
  }
}
