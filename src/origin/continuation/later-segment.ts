import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { dataRecord, payloadOf } from '../relay/sse-records.ts'
import { DONE } from '../../protocols/stream/event.ts'
import { type Chunk, readChunk } from '../../protocols/read-chunk.ts'
import type { Segment } from './segment.ts'
import type { StreamState } from './stream-state.ts'

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
