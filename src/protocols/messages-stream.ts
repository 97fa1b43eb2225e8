/** Grammar of Messages streams: named events. They end in `message_stop`. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn, errorNamed, errorOfText } from './engine-error.ts'
import { usageOfUncachedTokens } from './reported-usage.ts'
import { textIn } from './choices-stream.ts'
import { DONE, type EventKind, type StreamEvent, type StreamGrammar } from './stream/event.ts'
import { objectIn } from './stream/reader.ts'

const NAMED: ReadonlyMap<string, EventKind> = new Map([
  ['ping', 'comment'],
  ['content_block_delta', 'output'],
  ['content_block_start', 'structure'],
  ['content_block_stop', 'structure'],
])

export const messagesGrammar: StreamGrammar = {
  named: NAMED,
  outlines: new Map(),
  needsFinish: true,
  numbered: false,
  read: readEvent,
  usage: usageOfUncachedTokens,
  mayFollowEnd: () => false,
}

function readEvent(name: string | null, data: string): StreamEvent {
  // vLLM adds it after `message_stop`, and after an error. It is no end by itself.
  if (data.trim() === DONE) return { kind: 'comment' }
  const json = objectIn(data)
  if (name === 'error') return { kind: 'error', error: errorNamed(json, data) }
  if (json === null) return { kind: 'error', error: errorOfText(data) }
  const type = name ?? textIn(json['type'])
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

const deltaUsage = ({ usage }: JsonObject): { usage?: JsonObject } => (isJsonObject(usage) ? { usage } : {})

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
