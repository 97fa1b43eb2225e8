/** Converts Messages requests to the chat request that an engine makes of them. */
import { isJsonObject, type JsonObject } from '../json.ts'
import { toolCall, Transcript } from './chat-transcript.ts'
import { type ChatPrompt, chatPrompt, functionTools, readContent } from './chat.ts'

/** Anthropic's Messages: `system`, then turns with blocks of text, images, tool calls and their results. */
export function chatOfMessages(body: JsonObject): ChatPrompt | null {
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
    if (block['type'] === 'tool_use') calls.push(toolCall(block['id'], block['name'], block['input'] ?? {}))
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
