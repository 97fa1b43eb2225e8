/** Anthropic's Messages. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import type { ChatPrompt } from '../core/tokens/chat.ts'
import { isText, type Text } from '../core/tokens/utf8-text.ts'
import { functionTools, readContent, reasoningFields, toolCall, Transcript } from './chat-messages.ts'
import { notContinuable } from './continuation-rules.ts'
import { anthropicErrors } from './error-shape.ts'
import { messagesGrammar } from './messages-stream.ts'
import { contentParts, imagePart, objectsIn } from './media-items.ts'
import { prefillEdit, unsplittableReason } from './prefill-edit.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, PLAIN_MIRROR_EDIT, type FieldEdit, type Protocol, UNCOMPUTED } from './protocol.ts'
import { usageOfUncachedTokens } from './reported-usage.ts'
import { numberOf } from './request-fields.ts'
import { messagesSessionFields, sessionHeaders } from './session.ts'

const LIMITS = ['max_tokens'] as const

/** Claude Code's first system block, which changes with conversations and requests. vLLM drops it. */
const BILLING = 'x-anthropic-billing-header'

/**
 * `system`, then turns with blocks of text, images, tool calls and their results. System messages inside `messages` go
 * to the front, where vLLM up to 0.33 moves them.
 */
function readTurns(body: JsonObject): ChatPrompt | null {
  const { messages, system, tools } = body
  if (!Array.isArray(messages) || messages.length === 0) return null
  if (!messages.every(isTurn)) return null
  const inner = messages.filter(({ role }) => role === 'system').map(({ content }) => content)
  const transcript = new Transcript()
  const texts = [system, ...inner].map(systemText).filter((text) => text !== null && text !== '')
  if (system !== undefined || texts.length > 0) transcript.add('system', joined(texts as readonly Text[]))
  for (const { role, content } of messages) {
    if (role === 'system') continue
    if (Array.isArray(content)) addTurn(transcript, role, content)
    else transcript.add(role, content)
  }
  return transcript.prompt(body, functionTools(Array.isArray(tools) ? tools.map(chatTool) : null))
}

interface Turn extends JsonObject {
  readonly role: string
  readonly content: unknown
}

const isTurn = (message: unknown): message is Turn => isJsonObject(message) && typeof message['role'] === 'string'

/** Text of a system prompt, without the billing block. null: there is none. */
function systemText(content: unknown): Text | null {
  // A text of its own is the client's: vLLM drops blocks only.
  if (isText(content)) return content
  if (!Array.isArray(content)) return null
  const blocks = content.filter((block) => !(isJsonObject(block) && isBilling(block['text'])))
  return readContent(blocks).parts.join('')
}

const isBilling = (text: unknown): boolean => typeof text === 'string' && text.startsWith(BILLING)

/** vLLM puts a blank line between system messages. */
const joined = (texts: readonly Text[]): unknown => (texts.length === 1 ? texts[0] : [texts.join('\n\n')])

function addTurn(transcript: Transcript, role: string, blocks: readonly unknown[]): void {
  const content: unknown[] = []
  const calls: unknown[] = []
  let reasoning = ''
  for (const block of blocks) {
    if (!isJsonObject(block)) continue
    const { type } = block
    if (type === 'tool_use') calls.push(toolCall(block['id'], block['name'], block['input'] ?? {}))
    else if (type === 'tool_result') addResult(transcript, block)
    else if (type === 'thinking') reasoning += isText(block['thinking']) ? String(block['thinking']) : ''
    // Encrypted; engines drop it.
    else if (type !== 'redacted_thinking') content.push(block)
  }
  if (content.length === 0 && calls.length === 0 && reasoning === '') return
  transcript.add(role, content, {
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(reasoning === '' ? {} : reasoningFields(reasoning)),
  })
}

function addResult(transcript: Transcript, { content, tool_use_id: id }: JsonObject): void {
  transcript.add('tool', content, typeof id === 'string' ? { tool_call_id: id } : {})
}

/** A tool in the form of a chat's. */
function chatTool(tool: unknown): unknown {
  if (!isJsonObject(tool) || tool['input_schema'] === undefined) return tool
  return {
    type: 'function',
    function: { name: tool['name'], description: tool['description'], parameters: tool['input_schema'] },
  }
}

/** Images of a block, or of a tool's result, in the form that vLLM makes of them (entrypoints/anthropic/serving.py). */
function mediaOf(block: JsonObject): readonly JsonObject[] {
  if (block['type'] === 'tool_result') return objectsIn(block['content']).flatMap(imageOf)
  return imageOf(block)
}

function imageOf({ type, source }: JsonObject): readonly JsonObject[] {
  if (type !== 'image' || !isJsonObject(source)) return []
  const { type: kind = 'base64', media_type: mediaType = 'image/jpeg', data, url } = source
  const image = kind === 'url' ? url : kind === 'base64' && isText(data) ? `data:${mediaType};base64,${data}` : null
  return typeof image === 'string' && image !== '' ? [imagePart(image)] : []
}

function prefillLeg(body: JsonObject): FieldEdit {
  const { tool_choice: choice, output_config: config } = body
  const type = isJsonObject(choice) ? choice['type'] : null
  const { format, ...others } = isJsonObject(config) ? config : {}
  return prefillEdit(body, {
    limit: 'max_tokens',
    set: {
      ...(type === 'any' || type === 'tool' ? { tool_choice: '{"type":"auto"}' } : {}),
      // The effort beside it forms the prompt.
      ...(format === undefined ? {} : { output_config: JSON.stringify(others) }),
    },
    remove: ['output_format'],
  })
}

/** vLLM's check of thinking budgets exempts a prefill leg only if it has NIXL's parameters. */
function unsplittable(body: JsonObject, exempt: boolean): string | null {
  const { thinking } = body
  const isThinking = isJsonObject(thinking) && thinking['type'] === 'enabled'
  return unsplittableReason(body) ?? (isThinking && !exempt ? 'a thinking budget does not fit one token' : null)
}

export const messages: Protocol = {
  name: 'messages',
  operation: 'chat',
  endpoints: [
    { ...PLAIN_ENDPOINT, path: '/v1/messages', mirrorEdit: PLAIN_MIRROR_EDIT, streams: true, salted: true },
    {
      ...PLAIN_ENDPOINT,
      ...UNCOMPUTED,
      path: '/v1/messages/count_tokens',
      countAnswer: (promptTokens) => ({ input_tokens: promptTokens }),
    },
  ],
  promptFields: { texts: ['system', 'messages'], ids: [] },
  prompt: (body) => readTurns(body) ?? UNREADABLE,
  media: (body) => contentParts(body['messages']).flatMap(mediaOf),
  bounds: { fields: LIMITS, limit: (body) => numberOf(body, LIMITS), sequences: () => 1 },
  computesAll: () => false,
  answersJson: () => true,
  splitting: { unsplittable, prefillEdit: prefillLeg },
  asCompletion: null,
  continuable: notContinuable,
  stream: messagesGrammar,
  usage: usageOfUncachedTokens,
  streamedAnswer: 'message',
  errors: anthropicErrors,
  acceptsApiKeyHeader: true,
  sessions: [...sessionHeaders, ...messagesSessionFields],
}
