/**
 * Reads chat requests as the engine's template gets them. Follows vLLM's `chat_utils.parse_chat_messages`
 * (vllm/entrypoints/chat_utils.py): which fields are kept, how parts are joined.
 */
import { isJsonObject, type JsonObject } from '../json.ts'
import { itemMarker } from './item-marker.ts'
import { isText, type Text } from './utf8-text.ts'

/** One message as templates get it. */
export interface ChatMessage {
  readonly role: string
  /** Texts of the parts in order; other parts are markers with a hash of their content. */
  readonly parts: readonly Text[]
  /**
   * Fields besides role and content that templates read. `tool_calls` is a list; its arguments are mostly JSON text.
   */
  readonly extra: Readonly<Record<string, unknown>>
}

export interface ChatPrompt {
  readonly form: 'chat'
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly unknown[] | null
  /** Variables for the template: `add_generation_prompt`, `documents`, `chat_template_kwargs`, … */
  readonly variables: Readonly<Record<string, unknown>>
  /** The request has its own template, so the pool's does not apply. */
  readonly ownTemplate: boolean
  /** The engine adds its start tokens. Templates usually print them, so the default is false. */
  readonly addSpecial: boolean
  /** Images, audio and other parts that are not text. */
  readonly items: number
}

/** Reads a chat. null: `messages` is no list of messages. */
export function readChat(body: JsonObject): ChatPrompt | null {
  const list = body['messages']
  if (!Array.isArray(list) || list.length === 0) return null
  const messages: ChatMessage[] = []
  let items = 0
  for (const entry of list) {
    if (!isJsonObject(entry) || typeof entry['role'] !== 'string') return null
    const content = readContent(entry['content'])
    items += content.items
    messages.push({ role: entry['role'], parts: content.parts, extra: extraOf(entry, entry['role']) })
  }
  return chatPrompt(messages, items, body, functionTools(body['tools']))
}

/** Builds a chat from the fields that all APIs share. */
export function chatPrompt(
  messages: readonly ChatMessage[],
  items: number,
  body: JsonObject,
  tools: readonly unknown[] | null,
): ChatPrompt {
  const continued = body['continue_final_message'] === true
  const kwargs = isJsonObject(body['chat_template_kwargs']) ? body['chat_template_kwargs'] : {}
  return {
    form: 'chat',
    messages,
    tools,
    items,
    addSpecial: body['add_special_tokens'] === true,
    ownTemplate: typeof body['chat_template'] === 'string',
    variables: {
      add_generation_prompt: body['add_generation_prompt'] !== false && !continued,
      ...(continued ? { continue_final_message: true } : {}),
      ...(Array.isArray(body['documents']) ? { documents: body['documents'] } : {}),
      ...(typeof body['reasoning_effort'] === 'string' ? { reasoning_effort: body['reasoning_effort'] } : {}),
      ...kwargs,
    },
  }
}

/** Texts of a message's content. Other parts become markers, equal for equal content. */
export function readContent(content: unknown): { readonly parts: readonly Text[]; readonly items: number } {
  if (isText(content)) return { parts: [content], items: 0 }
  if (!Array.isArray(content)) return { parts: [], items: 0 }
  const parts: Text[] = []
  let items = 0
  for (const part of content) {
    const text = textOf(part)
    if (text !== null) parts.push(text)
    else if (isJsonObject(part)) {
      items++
      parts.push(itemMarker(part))
    }
  }
  return { parts, items }
}

const textTypes: ReadonlySet<unknown> = new Set(['text', 'input_text', 'output_text', 'refusal', 'thinking', undefined])

function textOf(part: unknown): Text | null {
  if (isText(part)) return part
  if (!isJsonObject(part) || !textTypes.has(part['type'])) return null
  const text = part['text'] ?? part['refusal'] ?? part['thinking']
  return isText(text) ? text : null
}

function extraOf(message: JsonObject, role: string): JsonObject {
  const extra: Record<string, unknown> = {}
  if (typeof message['name'] === 'string') extra['name'] = message['name']
  if (role === 'tool' && typeof message['tool_call_id'] === 'string') extra['tool_call_id'] = message['tool_call_id']
  if (role !== 'assistant') return extra
  if (Array.isArray(message['tool_calls'])) extra['tool_calls'] = message['tool_calls']
  const reasoning = message['reasoning'] ?? message['reasoning_content']
  if (typeof reasoning === 'string') {
    extra['reasoning'] = reasoning
    extra['reasoning_content'] = reasoning
  }
  return extra
}

/** Tools as vLLM's models print them: `type`, then `function` with every known field; absent ones are null. */
export function functionTools(tools: unknown): readonly unknown[] | null {
  if (!Array.isArray(tools) || tools.length === 0) return null
  return tools.map((tool: unknown) => {
    if (!isJsonObject(tool) || !isJsonObject(tool['function'])) return tool
    const { name, description, parameters, ...rest } = tool['function']
    return {
      type: tool['type'] ?? 'function',
      function: { name, description: description ?? null, parameters: parameters ?? null, ...rest },
    }
  })
}
