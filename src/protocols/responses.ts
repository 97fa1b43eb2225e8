/** OpenAI's Responses. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { isText } from '../core/tokens/utf8-text.ts'
import { functionTools, readContent, reasoningFields, toolCall, Transcript } from './chat-messages.ts'
import { notContinuable } from './continuation-rules.ts'
import { responsesErrors } from './error-shape.ts'
import { contentParts, imagePart, isMedia } from './media-items.ts'
import { freeToolChoice, prefillEdit, unsplittableReason } from './prefill-edit.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type FieldEdit, type Protocol } from './protocol.ts'
import { usageOfInputTokens } from './reported-usage.ts'
import { numberOf } from './request-fields.ts'
import { responsesGrammar } from './responses-stream.ts'
import { openaiSessionFields, sessionHeaders } from './session.ts'
import type { ChatPrompt } from '../core/tokens/chat.ts'

const LIMITS = ['max_output_tokens'] as const

/** `instructions`, then `input` as text or items. The content of `previous_response_id` is unknown here. */
function readConversation(body: JsonObject): ChatPrompt | null {
  const transcript = new Transcript()
  if (isText(body['instructions'])) transcript.add('system', body['instructions'])
  const { input, tools } = body
  if (isText(input)) transcript.add('user', input)
  else if (Array.isArray(input)) for (const item of input) addItem(transcript, item)
  else return null
  if (transcript.messages.length === 0) return null
  return transcript.prompt(body, functionTools(Array.isArray(tools) ? tools.map(chatTool) : null))
}

function addItem(transcript: Transcript, item: unknown): void {
  if (!isJsonObject(item)) return
  const { type, call_id: id } = item
  switch (type) {
    case 'function_call':
      transcript.add('assistant', null, { tool_calls: [toolCall(id, item['name'], item['arguments'])] })
      return
    case 'function_call_output':
      transcript.add('tool', item['output'], typeof id === 'string' ? { tool_call_id: id } : {})
      return
    case 'reasoning':
      transcript.add('assistant', null, reasoningFields(readContent(item['content']).parts.join('\n')))
      return
    default:
      if (typeof item['role'] === 'string') transcript.add(item['role'], item['content'])
  }
}

/** A function tool in the form of a chat's. */
function chatTool(tool: unknown): unknown {
  if (!isJsonObject(tool) || tool['type'] !== 'function' || isJsonObject(tool['function'])) return tool
  const { type, ...named } = tool
  return { type, function: named }
}

/** The protocol has the URL itself in this field. Engines accept the parts of a chat, too. */
function mediaOf(part: JsonObject): readonly JsonObject[] {
  const { type, image_url: url } = part
  if (type === 'input_image') return typeof url === 'string' ? [imagePart(url)] : []
  return isMedia(part) ? [part] : []
}

function prefillLeg(body: JsonObject): FieldEdit {
  const { text } = body
  const { format, ...others } = isJsonObject(text) ? text : {}
  return prefillEdit(body, {
    limit: 'max_output_tokens',
    set: {
      ...freeToolChoice(body),
      // Only the response of the decode leg is stored.
      store: 'false',
      ...(format === undefined ? {} : { text: JSON.stringify(others) }),
    },
    // Requests logprobs, which contradict their removal.
    remove: ['include'],
  })
}

/** Nothing is stored at the engine of a repeated request. */
const MIRROR_EDIT: FieldEdit = { set: { store: 'false' }, remove: ['priority', 'background'] }

export const responses: Protocol = {
  name: 'responses',
  operation: 'chat',
  endpoints: [
    {
      ...PLAIN_ENDPOINT,
      path: '/v1/responses',
      mirrorEdit: MIRROR_EDIT,
      streams: true,
      salted: true,
      storesResponses: true,
    },
  ],
  promptFields: { texts: ['instructions', 'input'], ids: [] },
  prompt: (body) => readConversation(body) ?? UNREADABLE,
  media: (body) => contentParts(body['input']).flatMap(mediaOf),
  bounds: { fields: LIMITS, limit: (body) => numberOf(body, LIMITS), sequences: () => 1 },
  computesAll: () => false,
  answersJson: () => true,
  splitting: { unsplittable: unsplittableReason, prefillEdit: prefillLeg },
  asCompletion: null,
  continuable: notContinuable,
  stream: responsesGrammar,
  usage: usageOfInputTokens,
  streamedAnswer: 'response',
  errors: responsesErrors,
  acceptsApiKeyHeader: false,
  sessions: [...sessionHeaders, { path: ['conversation'] }, { path: ['conversation', 'id'] }, ...openaiSessionFields],
}
