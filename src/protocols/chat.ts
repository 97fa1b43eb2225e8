/** OpenAI's chat completions. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { chatCompletionForm } from './chat-completion-form.ts'
import { readChat } from './chat-messages.ts'
import { chatComparison } from './comparison.ts'
import { choicesGrammar, textIn } from './choices-stream.ts'
import { chatBarrier, continuableBy } from './continuation-rules.ts'
import { openaiErrors } from './error-shape.ts'
import { chatMedia } from './media-items.ts'
import { openaiSplitting } from './prefill-edit.ts'
import { UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, PLAIN_MIRROR_EDIT, type Protocol } from './protocol.ts'
import { usageOfPromptTokens } from './reported-usage.ts'
import { numberOf, scoresPrompt, sequencesOf } from './request-fields.ts'
import { openaiSessionFields, sessionHeaders } from './session.ts'

const LIMITS = ['max_completion_tokens', 'max_tokens'] as const
const TEXT_FIELDS = ['content', 'reasoning', 'reasoning_content', 'refusal'] as const

/** Text of a delta: content, reasoning, and the names and arguments of tool calls. */
function textOfDelta({ delta }: JsonObject): string | null {
  if (!isJsonObject(delta)) return null
  let text = ''
  for (const name of TEXT_FIELDS) {
    const value = textIn(delta[name])
    // Some engines send reasoning under both names.
    if (name !== 'reasoning_content' || value !== delta['reasoning']) text += value
  }
  const { tool_calls: calls, function_call: call } = delta
  for (const one of Array.isArray(calls) ? (calls as readonly unknown[]) : [])
    if (isJsonObject(one)) text += textOfCall(one['function'])
  return text + textOfCall(call)
}

const textOfCall = (call: unknown): string =>
  isJsonObject(call) ? textIn(call['name']) + textIn(call['arguments']) : ''

/** The role alone: some engines send it before the prefill. */
const isRoleAlone = ({ delta }: JsonObject): boolean => isJsonObject(delta) && delta['role'] !== undefined

export const chat: Protocol = {
  name: 'chat',
  operation: 'chat',
  endpoints: [
    {
      ...PLAIN_ENDPOINT,
      path: '/v1/chat/completions',
      mirrorEdit: PLAIN_MIRROR_EDIT,
      streams: true,
      usageOnRequest: true,
      salted: true,
    },
  ],
  promptFields: { texts: ['messages'], ids: [] },
  prompt: (body) => readChat(body) ?? UNREADABLE,
  media: (body) => chatMedia(body['messages']),
  bounds: { fields: LIMITS, limit: (body) => numberOf(body, LIMITS), sequences: sequencesOf },
  computesAll: scoresPrompt,
  answersJson: () => true,
  splitting: openaiSplitting,
  asCompletion: chatCompletionForm,
  continuable: (body, mode) => continuableBy({ barrier: chatBarrier, defaultTokens: () => null }, body, mode),
  comparison: chatComparison,
  stream: choicesGrammar({ textOf: textOfDelta, isOpening: isRoleAlone }),
  usage: usageOfPromptTokens,
  streamedAnswer: null,
  errors: openaiErrors,
  acceptsApiKeyHeader: false,
  sessions: [...sessionHeaders, ...openaiSessionFields],
}
