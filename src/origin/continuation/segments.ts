/** Reads the events of the engines that make one stream, and writes those of the client. */
import type { Continuable, NotContinued } from '../../core/continuation/continuable.ts'
import { SentDeltas, type Channel } from '../../core/continuation/sent-deltas.ts'
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import type { StopMatch, StopWindow } from '../../core/continuation/stop-window.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { type JsonObject, isJsonObject } from '../../core/json.ts'
import { dataRecord, payloadOf } from '../relay/transform.ts'
import { usageOf } from '../relay/usage.ts'
import {
  EventTemplate,
  headOf,
  outputChunk,
  readChunk,
  usageChunk,
  withoutIds,
  type Chunk,
  type OutputChunk,
  type ResponseHead,
} from './chunks.ts'

/* Text fields of the choices of chat and completion chunks. */

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Fields of a delta and their channels. */
export const FIELDS: readonly (readonly [string, Channel])[] = [
  ['content', 'content'],
  ['reasoning', 'reasoning'],
  ['reasoning_content', 'reasoning'],
]

/** Adds the texts of a choice to what the client has. */
export function addDeltas(sent: SentDeltas, choice: JsonObject): void {
  const { delta } = choice
  if (!isJsonObject(delta)) return sent.add('content', textOf(choice['text']))
  for (const [name, channel] of FIELDS) if (typeof delta[name] === 'string') sent.add(channel, delta[name])
  const { tool_calls: calls } = delta
  if (!Array.isArray(calls)) return
  for (const call of calls as readonly unknown[]) {
    if (!isJsonObject(call)) continue
    const index = typeof call['index'] === 'number' ? call['index'] : 0
    const given = isJsonObject(call['function']) ? call['function'] : {}
    sent.add(`name:${index}`, textOf(given['name']))
    sent.add(`arguments:${index}`, textOf(given['arguments']))
  }
}

/** State of a stream over all engines that contribute to it. */
export interface StreamState {
  readonly request: Continuable
  readonly record: OutputRecord
  /** What the client has of each field; null: the request cannot be repeated. */
  readonly deltas: SentDeltas | null
  head: ResponseHead | null
  /** Why it cannot be continued from here; null: it can. */
  barrier: NotContinued | null
  /** The client has output. Before, the request itself can be sent again. */
  hasOutput: boolean
  /** Another engine has continued it by ids, so the request repeated is another stream. */
  byIds: boolean
  /** The client has the finish reason. */
  finished: boolean
  /** The client has `[DONE]`. */
  done: boolean
  /** Usage of the whole output; null: not known yet. */
  usage: Usage | null
  /** Prompt tokens by the first engine's usage or ids; null: unknown. */
  promptTokens: number | null
}

export const newState = (request: Continuable, record: OutputRecord): StreamState => ({
  request,
  record,
  deltas: request.repeats ? new SentDeltas() : null,
  head: null,
  barrier: request.barrier,
  hasOutput: false,
  byIds: false,
  finished: false,
  done: false,
  usage: null,
  promptTokens: null,
})

/** The events of one engine. */
export interface Segment {
  /** Failure that an event reported; null: none. Later events are ignored. */
  readonly failure: AttemptFailure | null
  /** Usage that the engine reported for its own request. */
  readonly usage: Usage | null
  /** Returns the records for the client. */
  take(record: string): string | Promise<string>
  /** Changes an event in place to that for the client. Returns its new end; -1: `take` it. Absent: always -1. */
  pass?(bytes: Uint8Array, from: number, to: number): number
}

const DONE = '[DONE]'
/** Finish reasons of an engine that gave up: vLLM's pause, shutdown and internal errors. */
export const ABORTED: ReadonlySet<string> = new Set(['abort', 'error'])

/** Templates that are made for one stream: the events of some engines have more that differs. */
const MOST_TEMPLATES = 8

/** The first engine's events: they pass unchanged except for what the gateway requested itself. */
export class FirstSegment implements Segment {
  failure: AttemptFailure | null = null
  usage: Usage | null = null
  readonly #state: StreamState
  #template: EventTemplate | null = null
  #templates = 0

  constructor(state: StreamState) {
    this.#state = state
  }

  pass(bytes: Uint8Array, from: number, to: number): number {
    const { request, barrier, deltas, finished, record, hasOutput } = this.#state
    // An event without ids or with more than output changes these.
    if (this.failure !== null || finished || barrier !== null || deltas !== null || request.showsIds || !hasOutput)
      return -1
    const end = this.#template?.take(bytes, from, to, record) ?? -1
    const made = end < 0 && this.#templates < MOST_TEMPLATES ? EventTemplate.of(bytes.subarray(from, to)) : null
    if (made === null) return end
    this.#template = made
    this.#templates++
    return made.take(bytes, from, to, record)
  }

  take(record: string): string {
    if (this.failure !== null) return ''
    const payload = payloadOf(record)
    if (payload === null) return record
    if (payload.trim() === DONE) return this.#done(record)
    const chunk = readChunk(payload)
    if (chunk === null) return record
    if (chunk.isError) return this.#error()
    if (chunk.isUsage) return this.#usageRecord(chunk, record)
    return this.#output(chunk, payload)
  }

  /** A stream that ends without a finish reason is not complete, whatever its last event is. */
  #done(record: string): string {
    if (!this.#state.finished) {
      this.failure = 'reset'
      return ''
    }
    this.#state.done = true
    return record
  }

  #error(): string {
    if (this.#state.done) return ''
    this.failure = 'status_5xx'
    return ''
  }

  #usageRecord({ json }: Chunk, record: string): string {
    this.usage = this.#state.usage = usageOf(json['usage'] as JsonObject)
    return this.#state.request.showsUsage ? record : ''
  }

  #output(chunk: Chunk, payload: string): string {
    const state = this.#state
    const { record, request } = state
    state.head ??= headOf(chunk.json)
    note(state, chunk, record.tokens)
    record.addIds(chunk.ids ?? [])
    if (withholds(state, chunk)) return this.#aborted({ ...chunk, text: '' })
    record.addText(chunk.text)
    if (state.deltas !== null) addDeltas(state.deltas, (chunk.json['choices'] as readonly JsonObject[])[0]!)
    if (chunk.finish !== null && ABORTED.has(chunk.finish)) return this.#aborted(chunk)
    if (chunk.finish !== null) state.finished = true
    if (request.showsIds) return dataRecord(payload)
    return chunk.isEmpty && chunk.finish === null ? '' : dataRecord(withoutIds(payload))
  }

  /** Text of the chunk goes to the client, its finish reason does not. */
  #aborted({ text, ids }: Chunk): string {
    this.failure = 'reset'
    const { head, request } = this.#state
    const shown = request.showsIds ? ids : null
    if (text === '' && (shown === null || shown.length === 0)) return ''
    return dataRecord(outputChunk(head!, request.api, { text, finish: null, stopReason: null, ids: shown }))
  }
}

/**
 * True if text must not be sent: an engine that aborts sends all text that it had held back, and a stop string may
 * begin in it. The next engine decodes it again from the ids.
 */
export const withholds = ({ request }: StreamState, { finish }: Chunk): boolean =>
  finish !== null && ABORTED.has(finish) && request.stops.length > 0

/**
 * Notes what forbids a continuation by ids from here on.
 * @param at index of the chunk's first id in the output
 */
export function note(state: StreamState, { ids, promptIds, text, opens, finish }: Chunk, at: number): void {
  const { record, request } = state
  if (promptIds !== null && record.promptIds === null) {
    record.promptIds = Uint32Array.from(promptIds)
    state.promptTokens ??= promptIds.length
  }
  // Ids without text may be those of `<think>`, which a parser removed: then the rest is not plain text.
  if (text !== '' || opens !== null || (request.showsIds && (ids?.length ?? 0) > 0)) state.hasOutput = true
  if (ids === null && text !== '' && finish === null) state.barrier = 'no_token_ids'
  if (opens === 'tools') state.barrier = 'tools'
  else if (opens === 'reasoning') state.barrier ??= 'reasoning'
  // A parser has closed the reasoning; the rest is plain text. With stop strings, text comes later than its ids.
  if (text === '' || state.barrier !== 'reasoning' || request.stops.length > 0) return
  state.barrier = request.barrier
  record.textStart = { at, ids: ids?.length ?? 0, length: text.length }
}

/** The events of an engine after the first one. They are read, and written as the client's events. */
export abstract class LaterSegment implements Segment {
  failure: AttemptFailure | null = null
  usage: Usage | null = null
  protected readonly state: StreamState

  constructor(state: StreamState) {
    this.state = state
  }

  take(record: string): string {
    if (this.failure !== null) return ''
    const payload = payloadOf(record)
    // Comments pass: they are heartbeats.
    if (payload === null) return record.startsWith(':') ? record : ''
    if (payload.trim() === DONE) return this.#done()
    const chunk = readChunk(payload)
    if (chunk === null || chunk.isError) {
      if (!this.state.finished) this.failure = chunk === null ? 'malformed' : 'status_5xx'
      return ''
    }
    if (chunk.isUsage) return this.usageRecord(chunk)
    return this.state.finished ? '' : this.output(chunk)
  }

  protected abstract usageRecord(chunk: Chunk): string
  protected abstract output(chunk: Chunk): string

  /** Ends the part: the engine's output is not what the client has. */
  protected differs(reason: NotContinued): string {
    this.state.barrier = reason
    this.failure = 'malformed'
    return ''
  }

  #done(): string {
    if (!this.state.finished) {
      this.failure = 'reset'
      return ''
    }
    this.state.done = true
    return dataRecord(DONE)
  }
}

/** Events of an engine that continues the stream: completion chunks, written as the client's chunks. */
export class ContinuedSegment extends LaterSegment {
  readonly #window: StopWindow
  /** Output tokens before this engine. */
  readonly #before: number

  constructor(state: StreamState, window: StopWindow) {
    super(state)
    this.#window = window
    this.#before = state.record.tokens
  }

  protected output(chunk: Chunk): string {
    const { state } = this
    const ids = state.record.addAgain(chunk.ids ?? [])
    // The client has other ids than this engine chose.
    if (ids === null && state.request.showsIds) return this.differs('wrong_continuation')
    const choice = (chunk.json['choices'] as readonly JsonObject[])[0]!
    const found = this.#window.add(chunk.text)
    if (chunk.finish === null || typeof found !== 'string') return this.send(found, ids)
    if (ABORTED.has(chunk.finish)) {
      this.failure = 'reset'
      return this.send(withholds(state, chunk) ? '' : found, ids)
    }
    const { stop_reason: stopReason } = choice
    const rest = this.#window.end(typeof stopReason === 'string' ? stopReason : null)
    if (typeof rest !== 'string') return this.#finish(found + rest.text, ids, { finish: 'stop', stopReason: rest.stop })
    return this.#finish(found + rest, ids, { finish: chunk.finish, stopReason })
  }

  /** Writes text, or the end at a stop string. */
  send(found: StopMatch | string, ids: readonly number[] | null = null): string {
    if (typeof found !== 'string') return this.#finish(found.text, ids, { finish: 'stop', stopReason: found.stop })
    if (found === '' && (!this.state.request.showsIds || ids === null || ids.length === 0)) return ''
    this.state.record.addText(found)
    return this.#write({ text: found, finish: null, stopReason: null, ids })
  }

  #finish(text: string, ids: readonly number[] | null, end: { finish: string; stopReason: unknown }): string {
    this.state.finished = true
    this.state.record.addText(text)
    return this.#write({ text, ...end, ids })
  }

  #write(chunk: OutputChunk): string {
    const { head, request } = this.state
    const ids = request.showsIds ? chunk.ids : null
    return dataRecord(outputChunk(head!, request.api, { ...chunk, ids }))
  }

  /** The usage of the whole: the first prompt, and the output of all engines. */
  protected usageRecord({ json }: Chunk): string {
    const { state } = this
    const own = json['usage'] as JsonObject
    this.usage = usageOf(own)
    const whole = wholeUsage(state, this.#before + (this.usage?.completionTokens ?? 0))
    state.usage = whole
    if (!state.request.showsUsage) return ''
    const { system_fingerprint: fingerprint } = json
    return dataRecord(
      usageChunk(state.head!, onWire(whole), fingerprint === undefined ? {} : { system_fingerprint: fingerprint }),
    )
  }
}

function wholeUsage({ promptTokens, record }: StreamState, completionTokens: number): Usage {
  return { promptTokens: promptTokens ?? record.promptIds?.length ?? 0, completionTokens, cachedTokens: null }
}

const onWire = ({ promptTokens, completionTokens }: Usage): JsonObject => ({
  prompt_tokens: promptTokens,
  total_tokens: promptTokens + completionTokens,
  completion_tokens: completionTokens,
  prompt_tokens_details: null,
})

/** Records that end a stream whose engine is gone after the finish reason: usage, if requested, and `[DONE]`. */
export function closingRecords(state: StreamState): string {
  const { request, record, head } = state
  let text = ''
  if (state.usage === null) {
    state.usage = wholeUsage(state, record.tokens)
    if (request.showsUsage) text += dataRecord(usageChunk(head!, onWire(state.usage), {}))
  }
  state.done = true
  return text + dataRecord(DONE)
}

/** Ends a stream whose output is complete without another engine: a stop string, or the limit of tokens. */
export function finishRecords(state: StreamState, end: { text: string; finish: string; stop: string | null }): string {
  const { request, head } = state
  state.finished = true
  state.record.addText(end.text)
  const chunk = { text: end.text, finish: end.finish, stopReason: end.stop, ids: null }
  return dataRecord(outputChunk(head!, request.api, chunk)) + closingRecords(state)
}
