import type { StopMatch, StopWindow } from '../../core/continuation/stop-window.ts'
import type { JsonObject } from '../../core/json.ts'
import { dataRecord } from '../relay/sse-records.ts'
import { completeUsage, usageOfPromptTokens } from '../../protocols/reported-usage.ts'
import type { WrittenChoice } from '../../protocols/completion-form.ts'
import { GAVE_UP } from '../../protocols/stream/event.ts'
import type { Chunk } from '../../protocols/read-chunk.ts'
import { onWire, wholeUsage } from './closing-records.ts'
import { LaterSegment } from './later-segment.ts'
import { outputChunk, usageChunk } from './output-chunk.ts'
import { type StreamState, withholds } from './stream-state.ts'

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
    if (GAVE_UP.has(chunk.finish)) {
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

  #write(chunk: WrittenChoice): string {
    const { head, request, form } = this.state
    const ids = request.showsIds ? chunk.ids : null
    return dataRecord(outputChunk(head!, form, { ...chunk, ids }))
  }

  /** The usage of the whole: the first prompt, and the output of all engines. */
  protected usageRecord({ json }: Chunk): string {
    const { state } = this
    const own = json['usage'] as JsonObject
    this.usage = completeUsage(usageOfPromptTokens(own))
    const whole = wholeUsage(state, this.#before + (this.usage?.completionTokens ?? 0))
    state.usage = whole
    if (!state.request.showsUsage) return ''
    const { system_fingerprint: fingerprint } = json
    return dataRecord(
      usageChunk(state.head!, onWire(whole), fingerprint === undefined ? {} : { system_fingerprint: fingerprint }),
    )
  }
}
