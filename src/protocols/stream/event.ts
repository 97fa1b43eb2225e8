/** What one server-sent event of an answer means, and the grammar that each protocol's streams follow. */
import type { JsonObject } from '../../core/json.ts'
import type { EngineError } from '../engine-error.ts'
import type { ReportedUsage } from '../reported-usage.ts'

/** Meaning of an event, without details. The hot path needs no more, so it is a constant and allocates nothing. */
export type EventKind =
  /** A comment or ping that keeps the connection alive. */
  | 'comment'
  /** Sent before the engine has computed anything (`response.created`, `message_start`, a role). No first token. */
  | 'opening'
  /** Part of the output without text of its own: a block begins or ends, a finish reason, a token without text. */
  | 'structure'
  | 'output'
  /** Usage alone. It can be removed if the client did not request it. */
  | 'usage'
  | 'error'
  /** The proper end of the stream. */
  | 'end'
  /** Unknown to the grammar: neither a token nor a fault. */
  | 'other'

/** One event with its details. */
export type StreamEvent = EventDetails &
  (
    | { readonly kind: Exclude<EventKind, 'output' | 'error'> }
    | { readonly kind: 'output'; readonly choice: number; readonly text: string }
    | { readonly kind: 'error'; readonly error: EngineError }
  )

interface EventDetails {
  /** `usage` object of this event, not yet converted. Absent: none. */
  readonly usage?: JsonObject
  /** Choice that the event belongs to. Absent: 0. */
  readonly choice?: number
  /** Why the choice ended. Absent: it goes on. */
  readonly finish?: string
  /** Number of the event, where the protocol counts events. */
  readonly sequence?: number
}

/** Members of a large event that are read without parsing all of it. */
export interface Outline {
  /** Member of the event's object that holds them. */
  readonly within: string
  readonly keys: readonly string[]
}

export interface StreamGrammar {
  /**
   * Kinds of named events (`event: NAME`) whose data need not be read. Nearly all events of the named protocols are
   * such, so they cost a comparison of the name.
   */
  readonly named: ReadonlyMap<string, EventKind>
  /** Named events that echo the request and may be large: only these members are read. */
  readonly outlines: ReadonlyMap<string, Outline>
  /** Reads one event. `name`: its `event` field; null: it has none. */
  read(name: string | null, data: string): StreamEvent
  /** Converts the merged `usage` objects of the stream. */
  usage(fields: JsonObject): ReportedUsage
  /** A proper end needs a finish reason before it, of every choice that began. */
  readonly needsFinish: boolean
  /** A finish reason of every choice is a proper end by itself: some providers send no `[DONE]`. Absent: false. */
  readonly endsAtFinish?: boolean
  /** Any end is proper. Absent: false. */
  readonly endsAnywhere?: boolean
  /** Events have numbers (`sequence_number`) that count from the first one. */
  readonly numbered: boolean
  /** Whether `data` may follow the end. */
  mayFollowEnd(data: string): boolean
}

/** How a stream ended, when the engine's body has ended. */
export type StreamOutcome =
  | 'complete'
  /** An error event, or a finish reason of an engine that gave up. The client has it; it is the engine's failure. */
  | 'error'
  /** The end came without a finish reason. The client has it; it is the engine's failure. */
  | 'unfinished'
  /** The proper end is missing. The client must not get a clean end. */
  | 'truncated'

/** Finish reasons of an engine that gave up: vLLM's pause, shutdown and internal errors; those of DeepSeek and GLM. */
export const GAVE_UP: ReadonlySet<string> = new Set(['abort', 'error', 'insufficient_system_resource', 'network_error'])

/** Data of the last event of OpenAI's streams. */
export const DONE = '[DONE]'

/** A comment line as heartbeat. It has no blank line: with `id` fields, openai-python takes that for an empty event. */
export const HEARTBEAT = new TextEncoder().encode(': ping\n')
