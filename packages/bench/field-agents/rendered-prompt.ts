/**
 * The prompt as vLLM renders it: bodies of all protocols become messages of a chat, which a ChatML template prints.
 * Written from vLLM (entrypoints/anthropic/serving.py, entrypoints/openai/responses), and independent of src/protocols:
 * the prompts that the gateway reads are compared with these.
 */
import { readFileSync } from 'node:fs'
import { Template } from '@huggingface/jinja'

type Json = Readonly<Record<string, unknown>>

interface Message {
  readonly role: string
  readonly content: string
  readonly tool_calls?: readonly object[]
}

interface Chat {
  readonly messages: readonly Message[]
  readonly tools: readonly object[]
}

const template = new Template(
  readFileSync(new URL('../conformance/python/chat_template.jinja', import.meta.url), 'utf8'),
)

/** Readers by path. */
const READERS: Readonly<Record<string, (body: Json) => Chat>> = {
  '/v1/chat/completions': chatOfChat,
  '/v1/messages': chatOfMessages,
  '/v1/responses': chatOfResponse,
}

export const promptPaths: readonly string[] = Object.keys(READERS)

export function renderPrompt(path: string, body: Json): string {
  const { messages, tools } = READERS[path]!(body)
  return template.render({
    messages,
    ...(tools.length > 0 ? { tools } : {}),
    add_generation_prompt: true,
  })
}

const list = (value: unknown): readonly Json[] => (Array.isArray(value) ? (value as Json[]) : [])

const call = (name: unknown, args: unknown): object => ({ type: 'function', function: { name, arguments: args } })

/** Texts of a content; a part that is no text becomes its JSON. */
function textsOf(content: unknown): readonly string[] {
  if (typeof content === 'string') return [content]
  return list(content).map((part) => (typeof part['text'] === 'string' ? part['text'] : JSON.stringify(part)))
}

const textOf = (content: unknown): string => textsOf(content).join('\n')

function chatOfChat(body: Json): Chat {
  const messages = list(body['messages']).map((message) => ({
    role: String(message['role']),
    content: textOf(message['content']),
    tool_calls: list(message['tool_calls']),
  }))
  return { messages, tools: list(body['tools']) }
}

const BILLING = 'x-anthropic-billing-header'

const systemOf = (content: unknown): string =>
  textsOf(content)
    .filter((text) => typeof content === 'string' || !text.startsWith(BILLING))
    .join('')

function chatOfMessages(body: Json): Chat {
  const messages: Message[] = []
  if (body['system'] !== undefined) messages.push({ role: 'system', content: systemOf(body['system']) })
  for (const { role, content } of list(body['messages'])) {
    if (role === 'system') messages.push({ role, content: systemOf(content) })
    else if (typeof content === 'string') messages.push({ role: String(role), content })
    else messages.push(...messagesOfTurn(String(role), list(content)))
  }
  const tools = list(body['tools']).map(({ name, description, input_schema: parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))
  return { messages: systemFirst(messages), tools }
}

/** vLLM moves system messages inside `messages` to the front, for templates that accept only one. */
function systemFirst(messages: readonly Message[]): readonly Message[] {
  const isSystem = ({ role }: Message): boolean => role === 'system'
  const texts = messages.filter(isSystem).map(({ content }) => content)
  const others = messages.filter((message) => !isSystem(message))
  return texts.length === 0 ? others : [{ role: 'system', content: texts.join('\n\n') }, ...others]
}

/** Results of tools come before the other blocks of the turn. */
function messagesOfTurn(role: string, blocks: readonly Json[]): readonly Message[] {
  const results = blocks.filter(({ type }) => type === 'tool_result')
  const texts = blocks.filter(({ type }) => type === 'text' || type === 'image')
  const calls = blocks
    .filter(({ type }) => type === 'tool_use')
    .map(({ name, input }) => call(name, JSON.stringify(input ?? {})))
  const tools = results.map(({ content }) => ({ role: 'tool', content: textOf(content) }))
  return texts.length + calls.length === 0 ? tools : [...tools, { role, content: textOf(texts), tool_calls: calls }]
}

function chatOfResponse(body: Json): Chat {
  const messages: Message[] = []
  if (typeof body['instructions'] === 'string') messages.push({ role: 'system', content: body['instructions'] })
  if (typeof body['input'] === 'string') messages.push({ role: 'user', content: body['input'] })
  for (const item of list(body['input'])) messages.push(messageOfItem(item))
  const tools = list(body['tools']).map((tool) => ({ type: 'function', function: tool }))
  return { messages, tools }
}

function messageOfItem(item: Json): Message {
  switch (item['type']) {
    case 'function_call':
      return { role: 'assistant', content: '', tool_calls: [call(item['name'], item['arguments'])] }
    case 'function_call_output':
      return { role: 'tool', content: textOf(item['output']) }
    default:
      return { role: String(item['role'] ?? 'user'), content: textOf(item['content'] ?? JSON.stringify(item)) }
  }
}
