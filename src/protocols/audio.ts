/** Audio to text, uploaded as a form. Only its size counts as prompt. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { choicesGrammar, textIn } from './choices-stream.ts'
import { ONE_PASS } from './one-pass.ts'
import { type Protocol, UPLOAD_ENDPOINT } from './protocol.ts'
import { type ReportedUsage, usageOfInputTokens, usageOfPromptTokens } from './reported-usage.ts'
import { numberOf } from './request-fields.ts'
import type { StreamEvent, StreamGrammar } from './stream/event.ts'
import { objectIn } from './stream/reader.ts'

/** Formats of transcriptions that are plain text. */
const TEXT_FORMATS: ReadonlySet<unknown> = new Set(['text', 'srt', 'vtt'])

const LIMITS = ['max_completion_tokens', 'max_tokens'] as const

/** vLLM reports `prompt_tokens`, OpenAI `input_tokens`. */
function usageOfAudio(fields: JsonObject): ReportedUsage {
  const usage = usageOfPromptTokens(fields)
  return usage.promptTokens === null ? usageOfInputTokens(fields) : usage
}

/** vLLM's chunks have choices with a delta. */
const chunks = choicesGrammar({
  textOf: ({ delta }) => (isJsonObject(delta) ? textIn(delta['content']) : null),
  isOpening: () => false,
})

/** OpenAI's events: `transcript.text.delta`, at last `transcript.text.done`. Some servers add `[DONE]`. */
const transcripts: StreamGrammar = {
  ...chunks,
  usage: usageOfAudio,
  read(name, data): StreamEvent {
    const json = data.includes('"transcript.') ? objectIn(data) : null
    const type = json === null ? '' : textIn(json['type'])
    if (json !== null && type.endsWith('.delta')) return { kind: 'output', choice: 0, text: textIn(json['delta']) }
    if (json === null || type !== 'transcript.text.done') return chunks.read(name, data)
    const { usage } = json
    // Silence has no delta before it.
    return { kind: 'end', finish: 'stop', ...(isJsonObject(usage) ? { usage } : {}) }
  },
}

export const audio: Protocol = {
  ...ONE_PASS,
  name: 'audio',
  operation: 'transcriptions',
  endpoints: ['/v1/audio/transcriptions', '/v1/audio/translations'].map((path) => ({
    ...UPLOAD_ENDPOINT,
    path,
    streams: true,
  })),
  prompt: () => ({ form: 'sound' }),
  bounds: { fields: LIMITS, limit: (body) => numberOf(body, LIMITS), sequences: () => 1 },
  answersJson: ({ response_format: format }) => !TEXT_FORMATS.has(format),
  stream: transcripts,
  usage: usageOfAudio,
}
