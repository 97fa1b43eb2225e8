/** Grammar of Messages streams: named events. They end in `message_stop`. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn } from './engine-error.ts'
import { readNamedEvent } from './named-event.ts'
import { usageOfUncachedTokens } from './reported-usage.ts'
import { textIn } from './choices-stream.ts'
import { type EventKind, type StreamEvent, type StreamGrammar } from './stream/event.ts'

const NAMED: ReadonlyMap<string, EventKind> = new Map([
  ['ping', 'comment'],
  ['content_block_delta', 'output'],
  ['content_block_start', 'structure'],
  ['content_block_stop', 'structure'],
  ['message_stop', 'end'],
])

export const messagesGrammar: StreamGrammar = {
  named: NAMED,
  outlines: new Map(),
  needsFinish: true,
  numbered: false,
  read: (name, data) => readNamedEvent(name, data, (type, json) => readType(type, json, data)),
  usage: usageOfUncachedTokens,
  mayFollowEnd: () => false,
}

function readType(type: string, json: JsonObject, data: string): StreamEvent {
  switch (type) {
    case 'message_start':
      return { kind: 'opening', ...startUsage(json['message']) }
    case 'content_block_delta':
      return { kind: 'output', choice: 0, text: textOfDelta(json['delta']) }
    case 'message_delta':
      return { kind: 'structure', ...deltaUsage(json), ...finishOf(json['delta']) }
    case 'message_stop':
      return { kind: 'end' }
    default: {
      const error = errorIn(json, data)
      if (error !== null) return { kind: 'error', error }
      return { kind: (NAMED.get(type) ?? 'other') as Exclude<EventKind, 'output' | 'error'> }
    }
  }
}

/** Usage at the start: its `output_tokens` is a placeholder, 0 or 1. */
function startUsage(message: unknown): { usage?: JsonObject } {
  const usage = isJsonObject(message) ? message['usage'] : null
  if (!isJsonObject(usage)) return {}
  const { output_tokens: _placeholder, ...input } = usage
  return { usage: input }
}

const INPUT_COUNTS = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'] as const

/** Usage at the end. Some servers count only output there and write 0 for the input: the counts of the start stay. */
function deltaUsage({ usage }: JsonObject): { usage?: JsonObject } {
  if (!isJsonObject(usage)) return {}
  if (INPUT_COUNTS.some((name) => usage[name] !== 0 && typeof usage[name] === 'number')) return { usage }
  return { usage: { output_tokens: usage['output_tokens'] } }
}

/** vLLM's stop reason is null if the engine gave up. */
function finishOf(delta: unknown): { finish?: string } {
  const reason = isJsonObject(delta) ? delta['stop_reason'] : null
  return typeof reason === 'string' ? { finish: reason } : {}
}

/** Text, reasoning or the arguments of a tool call. Signatures are no output. */
function textOfDelta(delta: unknown): string {
  if (!isJsonObject(delta)) return ''
  return textIn(delta['text']) + textIn(delta['thinking']) + textIn(delta['partial_json'])
}
