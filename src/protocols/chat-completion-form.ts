/** Chats as completions of token ids. Chunks and answers have vLLM's fields in vLLM's order. */
import type { JsonObject } from '../core/json.ts'
import { choicesOf, type CompletionForm } from './completion-form.ts'

export const chatCompletionForm: CompletionForm = {
  converts: true,
  withoutIds: ({ messages }) => (hasItems(messages) ? 'multimodal items' : null),
  tokenizeFields: ({
    messages,
    add_generation_prompt,
    continue_final_message,
    chat_template,
    chat_template_kwargs,
  }) => ({ messages, add_generation_prompt, continue_final_message, chat_template, chat_template_kwargs }),
  choice: ({ text, finish, stopReason, ids }) => ({
    index: 0,
    delta: text === '' && finish !== null ? {} : { content: text },
    logprobs: null,
    finish_reason: finish,
    ...(finish === null ? {} : { stop_reason: stopReason ?? null }),
    token_ids: ids,
  }),
  opening: chatOpening,
  chunk: chatChunk,
  answer: chatAnswer,
}

function hasItems(messages: unknown): boolean {
  if (!Array.isArray(messages)) return true
  return (messages as (JsonObject | null)[]).some((message) => {
    const content = message?.['content']
    return Array.isArray(content) && (content as (JsonObject | null)[]).some((part) => part?.['type'] !== 'text')
  })
}

const chatId = (id: unknown): string => `chat${String(id)}`

function chatChunk(chunk: JsonObject): JsonObject {
  const choices = choicesOf(chunk).map(({ index, text, finish_reason: finish, stop_reason: stop }) => ({
    index,
    delta: { content: text },
    logprobs: null,
    finish_reason: finish,
    ...(finish === null ? {} : { stop_reason: stop ?? null }),
    token_ids: null,
  }))
  return { ...chunk, id: chatId(chunk['id']), object: 'chat.completion.chunk', choices }
}

/** Starts a chat as vLLM does: the role without text, then the first token. */
function chatOpening({ id, created, model }: JsonObject, text: string): readonly JsonObject[] {
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

function chatAnswer(completion: JsonObject, first: string): JsonObject {
  const {
    id,
    created,
    model,
    service_tier = null,
    system_fingerprint,
    usage,
    kv_transfer_params = null,
    ec_transfer_params = null,
    metrics,
  } = completion
  return {
    id: chatId(id),
    object: 'chat.completion',
    created,
    model,
    choices: choicesOf(completion).map(({ index, text, finish_reason: finish, stop_reason: stop = null }) => ({
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
    ...(usage === undefined ? {} : { usage }),
    prompt_logprobs: null,
    prompt_token_ids: null,
    prompt_text: null,
    kv_transfer_params,
    ec_transfer_params,
    ...(metrics === undefined ? {} : { metrics }),
  }
}
