/**
 * Reads chat messages as the engine's template gets them. Follows vLLM's `chat_utils.parse_chat_messages`
 * (vllm/entrypoints/chat_utils.py): which fields are kept, how parts are joined.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { chainText } from '../core/tokens/block-hash.ts'
import type { ChatMessage, ChatPrompt } from '../core/tokens/chat.ts'
import { isText, type Text } from '../core/tokens/utf8-text.ts'

/** Members of messages and content parts, where a long text is read as such. */
export const PART_TEXTS: ReadonlySet<string> = new Set(['content', 'text', 'output'])

/** Reads a chat in OpenAI's form. null: `messages` is no list of messages. */
export function readChat(body: JsonObject): ChatPrompt | null {
  const list = body['messages']
  if (!Array.isArray(list) || list.length === 0) return null
  const transcript = new Transcript()
  for (const entry of list) {
    if (!isJsonObject(entry) || typeof entry['role'] !== 'string') return null
    transcript.add(entry['role'], entry['content'], extraOf(entry, entry['role']))
  }
  return transcript.prompt(body, functionTools(body['tools']))
}

/** Collects messages and counts parts that are not text. */
export class Transcript {
  readonly messages: ChatMessage[] = []
  items = 0
  #firstItem: string | null = null

  add(role: string, content: unknown, extra: JsonObject = {}): void {
    const { parts, items, first } = readContent(content)
    this.items += items
    this.#firstItem ??= first
    this.messages.push({ role, parts, extra })
  }

  /** Builds the chat with the fields that all protocols share. */
  prompt(body: JsonObject, tools: readonly unknown[] | null): ChatPrompt {
    const prompt: ChatPrompt = {
      form: 'chat',
      messages: this.messages,
      tools,
      items: this.items,
      addSpecial: body['add_special_tokens'] === true,
      ownTemplate: typeof body['chat_template'] === 'string',
      variables: variablesOf(body),
    }
    return this.#firstItem === null ? prompt : { ...prompt, firstItem: this.#firstItem }
  }
}

function variablesOf(body: JsonObject): JsonObject {
  const isContinued = body['continue_final_message'] === true
  // Optional variables are added afterwards: spreads of empty objects would cost more than the rest.
  const variables: Record<string, unknown> = {
    add_generation_prompt: body['add_generation_prompt'] !== false && !isContinued,
  }
  if (isContinued) variables['continue_final_message'] = true
  if (Array.isArray(body['documents'])) variables['documents'] = body['documents']
  if (typeof body['reasoning_effort'] === 'string') variables['reasoning_effort'] = body['reasoning_effort']
  const kwargs = body['chat_template_kwargs']
  return isJsonObject(kwargs) ? { ...variables, ...kwargs } : variables
}

/** A tool call as templates get it. Its arguments are mostly JSON text. */
export const toolCall = (id: unknown, name: unknown, args: unknown): unknown => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})

/** Reasoning under both names that templates use. */
export const reasoningFields = (text: string): JsonObject => ({ reasoning: text, reasoning_content: text })

interface ReadContent {
  readonly parts: readonly Text[]
  readonly items: number
  /** Marker of the first part that is not text; null: all are. */
  readonly first: string | null
}

/** Texts of a message's content. Other parts become markers, equal for equal content. */
export function readContent(content: unknown): ReadContent {
  if (isText(content)) return { parts: [content], items: 0, first: null }
  if (!Array.isArray(content)) return { parts: [], items: 0, first: null }
  const parts: Text[] = []
  let items = 0
  let first: string | null = null
  for (const part of content) {
    const text = textOf(part)
    if (text !== null) parts.push(text)
    else if (isJsonObject(part)) {
      items++
      const marker = itemMarker(part)
      first ??= marker
      parts.push(marker)
    }
  }
  return { parts, items, first }
}

const TEXT_TYPES: ReadonlySet<unknown> = new Set([
  'text',
  'input_text',
  'output_text',
  'refusal',
  'thinking',
  undefined,
])

function textOf(part: unknown): Text | null {
  if (isText(part)) return part
  if (!isJsonObject(part) || !TEXT_TYPES.has(part['type'])) return null
  const text = part['text'] ?? part['refusal'] ?? part['thinking']
  return isText(text) ? text : null
}

/** Marker of a part that is not text: equal for equal bytes or URL. */
function itemMarker(part: JsonObject): string {
  const state = { lo: 1, hi: 2 }
  const type = typeof part['type'] === 'string' ? part['type'] : 'item'
  hashValue(state, part, 0)
  return `[${type} ${hex(state.hi)}${hex(state.lo)}]`
}

const hex = (lane: number): string => lane.toString(16).padStart(8, '0')

/** Deepest nesting that is read: a body of brackets must not exhaust the stack. */
const MAX_DEPTH = 8

/** Longer texts, such as images in base64, are sampled: hashing all of 31 MB took 60 ms. */
const SAMPLED_CHARS = 256 * 1024
const SAMPLES = 32
const SAMPLE_CHARS = SAMPLED_CHARS / SAMPLES

interface HashState {
  lo: number
  hi: number
}

/** Hashes a text. Two texts of equal length and equal samples collide; a collision costs only a wrong prediction. */
function hashText(state: HashState, text: string): void {
  if (text.length <= SAMPLED_CHARS) return chainText(state, text)
  chainText(state, String(text.length))
  const last = text.length - SAMPLE_CHARS
  for (let i = 0; i < SAMPLES; i++) {
    const from = Math.floor((last * i) / (SAMPLES - 1))
    chainText(state, text, from, from + SAMPLE_CHARS)
  }
}

function hashValue(state: HashState, value: unknown, depth: number): void {
  if (isText(value)) hashText(state, String(value))
  else if (isJsonObject(value) && depth < MAX_DEPTH) {
    for (const key of Object.keys(value).sort()) {
      chainText(state, key)
      hashValue(state, value[key], depth + 1)
    }
  } else if (Array.isArray(value) && depth < MAX_DEPTH) for (const entry of value) hashValue(state, entry, depth + 1)
  else chainText(state, String(typeof value === 'object' ? null : value))
}

function extraOf(message: JsonObject, role: string): JsonObject {
  const extra: Record<string, unknown> = {}
  if (typeof message['name'] === 'string') extra['name'] = message['name']
  if (role === 'tool' && typeof message['tool_call_id'] === 'string') extra['tool_call_id'] = message['tool_call_id']
  if (role !== 'assistant') return extra
  if (Array.isArray(message['tool_calls'])) extra['tool_calls'] = message['tool_calls']
  const reasoning = message['reasoning'] ?? message['reasoning_content']
  return typeof reasoning === 'string' ? { ...extra, ...reasoningFields(reasoning) } : extra
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

/** Whether a message has parts besides text. */
export function hasMedia(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false
  return messages.some((message: unknown) => {
    const content = (message as { content?: unknown } | null)?.content
    return Array.isArray(content) && content.some((part: unknown) => !isTextPart(part))
  })
}

const isTextPart = (part: unknown): boolean =>
  typeof part === 'string' || ['text', 'refusal'].includes(String((part as { type?: unknown } | null)?.type))
