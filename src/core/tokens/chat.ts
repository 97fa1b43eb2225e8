/**
 * Reads chat requests as the engine's template gets them. Follows vLLM's `chat_utils.parse_chat_messages`
 * (vllm/entrypoints/chat_utils.py): which fields are kept, how parts are joined.
 */
import { isJsonObject } from '../json.ts'
import { chainText } from './block-hash.ts'
import { isText, type Text } from './utf8.ts'

/**
 * A chat as text pieces, for models without a known template. ChatML's marks replace those of the template, so that
 * the length is about right; any fixed form keeps equal prefixes equal.
 */
export function chatPieces(chat: ChatPrompt): Text[] {
  const pieces: Text[] = []
  if (chat.tools !== null) pieces.push('<|im_start|>tools\n', json(chat.tools), '<|im_end|>\n')
  for (const message of chat.messages) {
    pieces.push(`<|im_start|>${message.role}\n`)
    for (const part of message.parts) pieces.push(part)
    for (const key in message.extra) {
      const value = message.extra[key]
      // Templates print tool calls, but not ids, names and mostly not earlier reasoning.
      if (key === 'tool_calls') pieces.push(json(value))
    }
    pieces.push('<|im_end|>\n')
  }
  if (chat.variables['add_generation_prompt'] === true) pieces.push('<|im_start|>assistant\n')
  return pieces
}

/** A body that is nested deeper than the stack must not fail the request. */
function json(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return ''
  }
}

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

export type Fields = Readonly<Record<string, unknown>>

/** Reads a chat. null: `messages` is no list of messages. */
export function readChat(body: Fields): ChatPrompt | null {
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
  body: Fields,
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

/** Marker of a non-text part: equal for equal bytes or URL. */
export function itemMarker(part: Fields): string {
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

/** Hashes a text. Two texts of equal length and equal samples collide; a collision costs only a wrong prediction. */
function hashText(state: { lo: number; hi: number }, text: string): void {
  if (text.length <= SAMPLED_CHARS) return chainText(state, text)
  chainText(state, String(text.length))
  const last = text.length - SAMPLE_CHARS
  for (let i = 0; i < SAMPLES; i++) {
    const from = Math.floor((last * i) / (SAMPLES - 1))
    chainText(state, text, from, from + SAMPLE_CHARS)
  }
}

function hashValue(state: { lo: number; hi: number }, value: unknown, depth: number): void {
  if (isText(value)) hashText(state, String(value))
  else if (isJsonObject(value) && depth < MAX_DEPTH) {
    for (const key of Object.keys(value).sort()) {
      chainText(state, key)
      hashValue(state, value[key], depth + 1)
    }
  } else if (Array.isArray(value) && depth < MAX_DEPTH) for (const entry of value) hashValue(state, entry, depth + 1)
  else chainText(state, String(typeof value === 'object' ? null : value))
}

function extraOf(message: Fields, role: string): Fields {
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

/* Converts Responses and Messages requests to the chat request that an engine makes of them. */

/** Collects messages and counts parts that are not text. */
class Transcript {
  readonly messages: ChatMessage[] = []
  items = 0

  add(role: string, content: unknown, extra: Fields = {}): void {
    const { parts, items } = readContent(content)
    this.items += items
    this.messages.push({ role, parts, extra })
  }
}

const callOf = (id: unknown, name: unknown, args: unknown): unknown => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})

/**
 * OpenAI's Responses: `instructions`, then `input` as text or items. The content of `previous_response_id` is unknown
 * here.
 */
export function chatOfResponses(body: Fields): ChatPrompt | null {
  const transcript = new Transcript()
  if (isText(body['instructions'])) transcript.add('system', body['instructions'])
  const input = body['input']
  if (isText(input)) transcript.add('user', input)
  else if (Array.isArray(input)) for (const item of input) responsesItem(transcript, item)
  else return null
  if (transcript.messages.length === 0) return null
  const tools = Array.isArray(body['tools']) ? body['tools'].map(responsesTool) : null
  return chatPrompt(transcript.messages, transcript.items, body, functionTools(tools))
}

function responsesItem(transcript: Transcript, item: unknown): void {
  if (!isJsonObject(item)) return
  switch (item['type']) {
    case 'function_call':
      transcript.add('assistant', null, { tool_calls: [callOf(item['call_id'], item['name'], item['arguments'])] })
      return
    case 'function_call_output':
      transcript.add(
        'tool',
        item['output'],
        typeof item['call_id'] === 'string' ? { tool_call_id: item['call_id'] } : {},
      )
      return
    case 'reasoning': {
      const text = readContent(item['content']).parts.join('\n')
      transcript.add('assistant', null, { reasoning: text, reasoning_content: text })
      return
    }
    default:
      if (typeof item['role'] === 'string') transcript.add(item['role'], item['content'])
  }
}

function responsesTool(tool: unknown): unknown {
  if (!isJsonObject(tool) || tool['type'] !== 'function' || isJsonObject(tool['function'])) return tool
  const { type, ...named } = tool
  return { type, function: named }
}

/** Anthropic's Messages: `system`, then turns with blocks of text, images, tool calls and their results. */
export function chatOfMessages(body: Fields): ChatPrompt | null {
  if (!Array.isArray(body['messages']) || body['messages'].length === 0) return null
  const transcript = new Transcript()
  if (body['system'] !== undefined) transcript.add('system', [readContent(body['system']).parts.join('')])
  for (const message of body['messages']) {
    if (!isJsonObject(message) || typeof message['role'] !== 'string') return null
    if (Array.isArray(message['content'])) messagesTurn(transcript, message['role'], message['content'])
    else transcript.add(message['role'], message['content'])
  }
  const tools = Array.isArray(body['tools']) ? body['tools'].map(messagesTool) : null
  return chatPrompt(transcript.messages, transcript.items, body, functionTools(tools))
}

function messagesTurn(transcript: Transcript, role: string, blocks: readonly unknown[]): void {
  const content: unknown[] = []
  const calls: unknown[] = []
  for (const block of blocks) {
    if (!isJsonObject(block)) continue
    if (block['type'] === 'tool_use') calls.push(callOf(block['id'], block['name'], block['input'] ?? {}))
    else if (block['type'] === 'tool_result') {
      transcript.add(
        'tool',
        block['content'],
        typeof block['tool_use_id'] === 'string' ? { tool_call_id: block['tool_use_id'] } : {},
      )
    } else content.push(block)
  }
  if (content.length > 0 || calls.length > 0)
    transcript.add(role, content, calls.length > 0 ? { tool_calls: calls } : {})
}

function messagesTool(tool: unknown): unknown {
  if (!isJsonObject(tool) || tool['input_schema'] === undefined) return tool
  return {
    type: 'function',
    function: { name: tool['name'], description: tool['description'], parameters: tool['input_schema'] },
  }
}
