/** Responses and Messages requests as the chat request an engine makes of them. */
import {
  chatPrompt,
  functionTools,
  isFields,
  readContent,
  type ChatMessage,
  type ChatPrompt,
  type Fields,
} from './chat.ts'
import { isText } from './utf8-text.ts'

/** Collects messages and counts what is not text. */
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

/** OpenAI's Responses: `instructions`, then `input` as text or items. What `previous_response_id` stands for is not known here. */
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
  if (!isFields(item)) return
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
  if (!isFields(tool) || tool['type'] !== 'function' || isFields(tool['function'])) return tool
  const { type, ...named } = tool
  return { type, function: named }
}

/** Anthropic's Messages: `system`, then turns whose blocks may be text, pictures, tool calls and their results. */
export function chatOfMessages(body: Fields): ChatPrompt | null {
  if (!Array.isArray(body['messages']) || body['messages'].length === 0) return null
  const transcript = new Transcript()
  if (body['system'] !== undefined) transcript.add('system', [readContent(body['system']).parts.join('')])
  for (const message of body['messages']) {
    if (!isFields(message) || typeof message['role'] !== 'string') return null
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
    if (!isFields(block)) continue
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
  if (!isFields(tool) || tool['input_schema'] === undefined) return tool
  return {
    type: 'function',
    function: { name: tool['name'], description: tool['description'], parameters: tool['input_schema'] },
  }
}
