/**
 * Grammar of Responses streams: named, numbered events. They end in `response.completed`, `.incomplete` or `.failed`.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn, type EngineError } from './engine-error.ts'
import { readNamedEvent } from './named-event.ts'
import { usageOfInputTokens } from './reported-usage.ts'
import { textIn } from './choices-stream.ts'
import { type EventKind, type Outline, type StreamEvent, type StreamGrammar } from './stream/event.ts'

/** vLLM sends these before the prefill. They echo the request, so nothing in them is read. */
const OPENINGS = ['response.created', 'response.queued', 'response.in_progress'] as const
/** Deltas of text, reasoning, refusals, tool calls and code. */
const DELTAS = [
  'response.output_text.delta',
  'response.reasoning_text.delta',
  'response.reasoning_summary_text.delta',
  'response.reasoning.delta',
  'response.refusal.delta',
  'response.function_call_arguments.delta',
  'response.custom_tool_call_input.delta',
  'response.mcp_call_arguments.delta',
  'response.code_interpreter_call_code.delta',
  'response.audio.delta',
  'response.audio.transcript.delta',
] as const
const PARTS = [
  'response.output_item.added',
  'response.output_item.done',
  'response.content_part.added',
  'response.content_part.done',
  'response.output_text.done',
  'response.output_text.annotation.added',
  'response.reasoning_text.done',
  'response.reasoning_part.added',
  'response.reasoning_part.done',
  'response.function_call_arguments.done',
] as const
const LAST = ['response.completed', 'response.incomplete', 'response.failed', 'response.cancelled'] as const

const kinds = (names: readonly string[], kind: EventKind): [string, EventKind][] => names.map((name) => [name, kind])

const NAMED: ReadonlyMap<string, EventKind> = new Map([
  ...kinds(OPENINGS, 'opening'),
  ...kinds(DELTAS, 'output'),
  ...kinds(PARTS, 'structure'),
  ['keepalive', 'comment'],
  ['ping', 'comment'],
])

/** The last event has the whole output and the request's tools. */
const OUTLINE: Outline = { within: 'response', keys: ['usage', 'status', 'error'] }

export const responsesGrammar: StreamGrammar = {
  named: NAMED,
  outlines: new Map(LAST.map((name) => [name, OUTLINE])),
  needsFinish: false,
  numbered: true,
  read: (name, data) => readNamedEvent(name, data, (type, json) => readType(type, json, data)),
  usage: usageOfInputTokens,
  mayFollowEnd: () => false,
}

function readType(type: string, json: JsonObject, data: string): StreamEvent {
  const number = json['sequence_number']
  const counted = typeof number === 'number' ? { sequence: number } : {}
  if ((LAST as readonly string[]).includes(type)) return { ...readLast(type, json, data), ...counted }
  const error = type.startsWith('response.') ? null : errorIn(json, data)
  if (error !== null) return { kind: 'error', error, ...counted }
  const kind = NAMED.get(type) ?? (type.endsWith('.delta') ? 'output' : isOutputPart(type) ? 'structure' : 'other')
  if (kind === 'output') return { kind, choice: 0, text: textIn(json['delta']), ...counted }
  return { kind: kind as Exclude<EventKind, 'output' | 'error'>, ...counted }
}

/** Later versions add events; all but the openings come after the prefill. */
const isOutputPart = (type: string): boolean => type.startsWith('response.')

/** A response that failed or was cancelled by the engine is an error, whatever its event is called. */
function readLast(type: string, json: JsonObject, data: string): StreamEvent {
  const response = isJsonObject(json['response']) ? json['response'] : {}
  const { usage, status } = response
  const counted = isJsonObject(usage) ? { usage } : {}
  const hasFailed = type === 'response.failed' || type === 'response.cancelled'
  if (!hasFailed && status !== 'failed' && status !== 'cancelled') return { kind: 'end', ...counted }
  return { kind: 'error', error: errorOfResponse(response, data), ...counted }
}

function errorOfResponse(response: JsonObject, data: string): EngineError {
  const { error, status } = response
  if (isJsonObject(error)) return errorIn({ error }, data)!
  return { status: null, message: `The response is ${textIn(status) || 'failed'}.`, body: data }
}
