import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import type { JsonObject } from '../../core/json.ts'
import { dataRecord, payloadOf } from '../relay/sse-records.ts'
import { completeUsage, usageOfPromptTokens } from '../../protocols/reported-usage.ts'
import { addDeltas } from '../../protocols/choice-deltas.ts'
import { DONE, GAVE_UP } from '../../protocols/stream/event.ts'
import { type Chunk, readChunk, withoutIds } from '../../protocols/read-chunk.ts'
import { EventTemplate } from './event-template.ts'
import { headOf, outputChunk } from './output-chunk.ts'
import type { Segment } from './segment.ts'
import { updateState, type StreamState, withholds } from './stream-state.ts'

/** Templates that are made for one stream: the events of some engines have more that differs. */
const MAX_TEMPLATES = 8

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
    const made = end < 0 && this.#templates < MAX_TEMPLATES ? EventTemplate.of(bytes.subarray(from, to)) : null
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
    this.usage = this.#state.usage = completeUsage(usageOfPromptTokens(json['usage'] as JsonObject))
    return this.#state.request.showsUsage ? record : ''
  }

  #output(chunk: Chunk, payload: string): string {
    const state = this.#state
    const { record, request } = state
    state.head ??= headOf(chunk.json)
    updateState(state, chunk, record.tokens)
    record.addIds(chunk.ids ?? [])
    if (withholds(state, chunk)) return this.#aborted({ ...chunk, text: '' })
    record.addText(chunk.text)
    if (state.deltas !== null) addDeltas(state.deltas, (chunk.json['choices'] as readonly JsonObject[])[0]!)
    if (chunk.finish !== null && GAVE_UP.has(chunk.finish)) return this.#aborted(chunk)
    if (chunk.finish !== null) state.finished = true
    if (request.showsIds) return dataRecord(payload)
    return chunk.isEmpty && chunk.finish === null ? '' : dataRecord(withoutIds(payload))
  }

  /** Text of the chunk goes to the client, its finish reason does not. */
  #aborted({ text, ids }: Chunk): string {
    this.failure = 'reset'
    const { head, request, form } = this.#state
    const shown = request.showsIds ? ids : null
    if (text === '' && (shown === null || shown.length === 0)) return ''
    return dataRecord(outputChunk(head!, form, { text, finish: null, stopReason: null, ids: shown }))
  }
}
