/** Converts Responses requests to the chat request that an engine makes of them. */
import { isJsonObject, type JsonObject } from '../json.ts'
import { toolCall, Transcript } from './chat-transcript.ts'
import { type ChatPrompt, chatPrompt, functionTools, readContent } from './chat.ts'
import { isText } from './utf8-text.ts'

/**
 * OpenAI's Responses: `instructions`, then `input` as text or items. The content of `previous_response_id` is unknown
 * here.
 */
export function chatOfResponses(body: JsonObject): ChatPrompt | null {
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
      transcript.add('assistant', null, { tool_calls: [toolCall(item['call_id'], item['name'], item['arguments'])] })
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
