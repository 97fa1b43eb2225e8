/** Bodies of calls for token ids, and readers of their answers. */
import { isJsonObject } from '../core/json.ts'
import type { ChatPrompt } from '../core/tokens/chat.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import type { TokenizeCall } from './engine-type.ts'

/** Most texts of one request, since each is a call. */
const MAX_TEXTS = 4

/** Calls for the texts of a prompt. null: it is no list of texts, or of too many. */
export function callsForTexts(
  prompt: Prompt,
  path: string,
  bodyOf: (text: unknown, addSpecial: boolean) => object,
): readonly TokenizeCall[] | null {
  if (prompt.form !== 'texts' || prompt.texts.length > MAX_TEXTS) return null
  try {
    return prompt.texts.map((text) => ({ path, body: JSON.stringify(bodyOf(text, prompt.addSpecial)) }))
  } catch {
    return null
  }
}

/** Call for a chat. null: it is no chat, has parts that are not text, or its own template. */
export function callForChat(
  prompt: Prompt,
  path: string,
  bodyOf: (chat: Record<string, unknown>) => object,
): readonly TokenizeCall[] | null {
  if (prompt.form !== 'chat' || prompt.items > 0 || prompt.ownTemplate) return null
  try {
    return [{ path, body: JSON.stringify(bodyOf(chatBody(prompt))) }]
  } catch {
    return null
  }
}

function chatBody({ messages, tools, variables, addSpecial }: ChatPrompt): Record<string, unknown> {
  const { add_generation_prompt: opened, continue_final_message: continued, documents: _, ...kwargs } = variables
  return {
    messages: messages.map(({ role, parts, extra }) => ({
      ...onWire(extra),
      role,
      content: parts.length === 1 ? parts[0] : parts.map((text) => ({ type: 'text', text })),
    })),
    add_generation_prompt: opened,
    add_special_tokens: addSpecial,
    ...(continued === undefined ? {} : { continue_final_message: continued }),
    ...(tools === null ? {} : { tools }),
    ...(Object.keys(kwargs).length === 0 ? {} : { chat_template_kwargs: kwargs }),
  }
}

/** Arguments of tool calls are JSON text on the wire. */
function onWire(extra: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const calls = extra['tool_calls']
  if (!Array.isArray(calls)) return { ...extra }
  return { ...extra, tool_calls: calls.map((call: unknown) => withTextArguments(call)) }
}

function withTextArguments(call: unknown): unknown {
  const named = (call as { function?: { arguments?: unknown } } | null)?.function
  if (named === undefined || typeof named.arguments === 'string') return call
  return { ...(call as object), function: { ...named, arguments: JSON.stringify(named.arguments ?? {}) } }
}

/** Reads a list of ids. null: it is something else. */
export function idsOf(list: unknown): Uint32Array | null {
  return Array.isArray(list) && list.every((id) => Number.isInteger(id) && id >= 0)
    ? Uint32Array.from(list as number[])
    : null
}

/** Ids in `tokens` of the answer. */
export const idsInTokens = (json: unknown): Uint32Array | null => (isJsonObject(json) ? idsOf(json['tokens']) : null)

/** Text in a field of the answer. */
export const textIn =
  (name: string) =>
  (json: unknown): string | null => {
    const text = isJsonObject(json) ? json[name] : null
    return typeof text === 'string' ? text : null
  }
