/**
 * Follows one answer's stream as its bytes pass: what each event means, when output began, usage, errors and the end.
 * Ordinary output events cost a comparison of bytes; the others are parsed.
 */
import { concatBytes } from '../../core/bytes.ts'
import { isJsonObject, type JsonObject } from '../../core/json.ts'
import { errorOfText, type EngineError } from '../engine-error.ts'
import { mergedFields, type ReportedUsage } from '../reported-usage.ts'
import { EventBoundaries, fieldsOf } from './boundaries.ts'
import { ChoiceSet } from './choice-set.ts'
import { DONE, GAVE_UP, type EventKind, type StreamEvent, type StreamGrammar, type StreamOutcome } from './event.ts'
import { JsonMembers } from './json-members.ts'
import { isLineAt, type NamedLine, NamedLines } from './named-lines.ts'
import { PlainChunk, PlainChunks } from './plain-chunk.ts'
import { RepeatedChunks } from './repeated-chunk.ts'

/** Limit, bytes, of an event that is kept until its end. Of a longer one only the name and wanted members are read. */
const KEPT_BYTES = 64 * 1024
/** Shorter events are parsed whole, which costs less than a search for their members. */
const PARSED_BYTES = 2048
/** Limit, bytes, of an event that is copied for its number. */
const SAMPLE_BYTES = 1024
/** Templates that are made without a hit: the events of some streams differ in more than a text. */
const MAX_MISSES = 8
/** Chunks that a stream adds to the repeated ones: the events of some streams are all different. */
const MAX_ADDED = 4
/** Kinds of events without text that streams repeat. */
const REPEATED: ReadonlySet<EventKind> = new Set(['opening', 'structure', 'end'])
/** First letters of `data` and `event`. */
const LETTER_D = 100
const LETTER_E = 101
const utf8 = new TextDecoder()

/** An event in pieces. */
interface Pieces {
  held: Uint8Array[] | null
  bytes: number
  /** First line of a long event. null: no known one, or the event is not long. */
  line: NamedLine | null
  members: JsonMembers | null
}

/** A copy of an event that has a number. */
interface NumberedEvent {
  readonly event: Uint8Array
  /** Events before it. */
  readonly at: number
}

/** Events of a grammar that need no parser. */
interface KnownEvents {
  readonly plain: PlainChunks
  readonly repeated: RepeatedChunks
  readonly lines: NamedLines
}

const knownEvents = new WeakMap<StreamGrammar, KnownEvents>()

function knownEventsOf(grammar: StreamGrammar): KnownEvents {
  let known = knownEvents.get(grammar)
  if (known === undefined) {
    known = { plain: new PlainChunks(), repeated: new RepeatedChunks(), lines: new NamedLines(grammar) }
    knownEvents.set(grammar, known)
  }
  return known
}

export class StreamReader {
  /** Data events so far, the end mark included. */
  events = 0
  /** Events with text of the output. */
  outputs = 0
  /** Events with usage alone. */
  usageEvents = 0
  readonly grammar: StreamGrammar
  readonly #boundaries = new EventBoundaries()
  readonly #known: KnownEvents
  /** First line of the last named event: most are alike. */
  #lastLine: NamedLine | null = null
  /** Template of the last ordinary output event. */
  #last: PlainChunk | null = null
  /** Templates made since the last hit. */
  #misses = 0
  /** Chunks that this stream added to the repeated ones. */
  #added = 0
  #pieces: Pieces | null = null
  #hasBegun = false
  #isWaiting = true
  #usage: JsonObject | null = null
  /** Error that an event reported. */
  #error: EngineError | null = null
  /** The same, if it came before any output. */
  #earlyError: EngineError | null = null
  /** A finish reason of an engine that gave up. */
  #gaveUp: EngineError | null = null
  #firstSequence: number | null = null
  /** An event that is read for its number if an error event needs one. null: none was short enough. */
  #sample: NumberedEvent | null = null
  /** Choices that began, and those with a finish reason. */
  readonly #choices = new ChoiceSet()
  readonly #finished = new ChoiceSet()
  #hasEnded = false
  #trails = false

  constructor(grammar: StreamGrammar) {
    this.grammar = grammar
    this.#known = knownEventsOf(grammar)
  }

  /** The engine has sent a part of its output: its first token is there. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Nothing but comments and openings came: another engine can still take the request. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  /** The position is between two events, or after comment lines: an event may be put here. */
  get atBoundary(): boolean {
    return this.#boundaries.atBoundary
  }

  /** No bytes of an event were taken, so `event` may follow. */
  get isBetween(): boolean {
    return this.#pieces === null && this.#boundaries.atBoundary
  }

  /** First error that the engine reported. null: none. */
  get error(): EngineError | null {
    return this.#error ?? this.#gaveUp
  }

  /** First error before any output. null: none. */
  get earlyError(): EngineError | null {
    return this.#earlyError
  }

  /** The proper end of the protocol was read. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Counts so far; null: none was reported. */
  get usage(): ReportedUsage | null {
    return this.#usage === null ? null : this.grammar.usage(this.#usage)
  }

  /** Number of the next event, for an error event of the gateway. null: the protocol has none. */
  get nextSequence(): number | null {
    if (!this.grammar.numbered) return null
    if (this.#firstSequence === null && this.#sample !== null) this.#firstSequence = firstSequenceOf(this.#sample)
    return (this.#firstSequence ?? 0) + this.events
  }

  /** How the stream ended. Call it after the last byte. */
  outcome(): StreamOutcome {
    this.#readRest()
    if (this.#error !== null) return 'error'
    if (this.grammar.endsAnywhere === true) return 'complete'
    const hasEnd = this.#hasEnded || (this.grammar.endsAtFinish === true && this.#isFinished)
    if (this.#trails || this.#pieces !== null || !hasEnd) return 'truncated'
    if (this.#gaveUp !== null) return 'error'
    return !this.grammar.needsFinish || this.#isFinished ? 'complete' : 'unfinished'
  }

  /** Every choice that began has a finish reason. */
  get #isFinished(): boolean {
    return this.#finished.size > 0 && this.#finished.size >= this.#choices.size
  }

  /** Reads a whole event, or comments, after the last blank line: some engines leave out the one at the end. */
  #readRest(): void {
    const held = this.#pieces?.held ?? null
    if (held === null) return
    const { name, data } = fieldsOf(utf8.decode(concatBytes(held, this.#pieces!.bytes)))
    if (data !== null && data.trim() !== DONE && objectIn(data) === null) return
    this.#pieces = null
    if (data === null) return
    if (this.#hasEnded) this.#afterEnd(data)
    else this.#note(this.grammar.read(name, data))
  }

  /** Reads bytes that may have any number of events, whole or in part. */
  take(chunk: Uint8Array, from = 0, to = chunk.length): void {
    for (let at = from; at < to;) {
      const isStart = this.isBetween
      const end = this.#boundaries.next(chunk, at, to)
      if (isStart && end >= 0) this.event(chunk, at, end)
      else this.part(chunk, at, end < 0 ? to : end, end >= 0)
      at = end < 0 ? to : end
    }
  }

  /** Reads a range that is exactly one event with the blank line that ends it. */
  event(bytes: Uint8Array, from: number, to: number): EventKind {
    if (this.#last !== null && this.#last.matches(bytes, from, to)) return this.#plainOutput()
    const line = bytes[from] === LETTER_E ? this.#lineAt(bytes, from, to) : null
    if (line !== null) return this.#lined(line, bytes, from, to)
    if (bytes[from] === LETTER_D) {
      if (this.#findsPlain(bytes, from, to)) return this.#plainOutput()
      const repeated = this.#hasEnded ? null : this.#known.repeated.find(bytes, from, to)
      if (repeated !== null) return this.#note(repeated)
    }
    return this.#parsed(bytes.subarray(from, to))
  }

  #lineAt(bytes: Uint8Array, from: number, to: number): NamedLine | null {
    if (this.#lastLine !== null && isLineAt(bytes, from, to, this.#lastLine)) return this.#lastLine
    return (this.#lastLine = this.#known.lines.find(bytes, from, to))
  }

  /** Reads an event by its first line. */
  #lined(line: NamedLine, bytes: Uint8Array, from: number, to: number): EventKind {
    if (this.grammar.numbered && this.#sample === null && to - from <= SAMPLE_BYTES && line.kind !== 'comment')
      this.#sample = { event: new Uint8Array(bytes.subarray(from, to)), at: this.events }
    if (line.outline === null) return this.#named(line.kind!)
    if (to - from <= PARSED_BYTES && !this.#hasEnded) return this.#parsed(bytes.subarray(from, to))
    const members = new JsonMembers(line.outline.keys, line.outline.within)
    members.take(bytes, from, to)
    return this.#outlined(line.name, members)
  }

  /** Reads a part of an event. Returns its kind at its end; null before. */
  part(bytes: Uint8Array, from: number, to: number, isLast: boolean): EventKind | null {
    const pieces = (this.#pieces ??= { held: [], bytes: 0, line: null, members: null })
    pieces.bytes += to - from
    // A copy: the caller may reuse the memory.
    if (pieces.held !== null) pieces.held.push(new Uint8Array(bytes.subarray(from, to)))
    else pieces.members?.take(bytes, from, to)
    if (!isLast) {
      if (pieces.held !== null && pieces.bytes > KEPT_BYTES) this.#release(pieces)
      return null
    }
    this.#pieces = null
    if (pieces.held !== null) return this.event(concatBytes(pieces.held, pieces.bytes), 0, pieces.bytes)
    if (pieces.members !== null) return this.#outlined(pieces.line!.name, pieces.members)
    return this.#named(pieces.line?.kind ?? 'output')
  }

  /** Stops keeping a long event. */
  #release(pieces: Pieces): void {
    const held = concatBytes(pieces.held!, pieces.bytes)
    pieces.held = null
    pieces.line = this.#known.lines.find(held, 0, held.length)
    const outline = pieces.line?.outline ?? null
    if (outline === null) return
    pieces.members = new JsonMembers(outline.keys, outline.within)
    pieces.members.take(held, 0, held.length)
  }

  #findsPlain(bytes: Uint8Array, from: number, to: number): boolean {
    const plain = this.#known.plain.find(bytes, from, to)
    if (plain === undefined) return false
    this.#last = plain
    this.#hasBegun = true
    this.#isWaiting = false
    this.#choices.add(plain.choice)
    return true
  }

  #plainOutput(): EventKind {
    this.#misses = 0
    this.events++
    this.outputs++
    this.#trails ||= this.#hasEnded
    return 'output'
  }

  #named(kind: EventKind): EventKind {
    if (kind === 'comment') return kind
    this.events++
    if (kind !== 'opening') this.#isWaiting = false
    if (kind === 'output') this.outputs++
    if (kind === 'output' || kind === 'structure') this.#hasBegun = true
    this.#trails ||= this.#hasEnded
    if (kind === 'end') this.#hasEnded = true
    return kind
  }

  #outlined(name: string, { found }: JsonMembers): EventKind {
    const { within } = this.grammar.outlines.get(name)!
    const members = [...found].map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    return this.#note(this.grammar.read(name, `{"type":${JSON.stringify(name)},"${within}":{${members.join()}}}`))
  }

  #parsed(event: Uint8Array): EventKind {
    const { name, data, error } = fieldsOf(utf8.decode(event))
    if (error !== null && data === null) return this.#note({ kind: 'error', error: errorOfText(error) })
    // Keep-alives: a comment, an `id` alone, or data without content.
    if (data === null || (data.trim() === '' && name === null)) return 'comment'
    if (this.#hasEnded) return this.#afterEnd(data)
    const read = this.grammar.read(name, data)
    const kind = this.#note(read)
    if (event[0] !== LETTER_D || read.usage !== undefined) return kind
    if (read.kind === 'output') this.#learn(event, read)
    else if (REPEATED.has(kind)) this.#keep(event, read)
    return kind
  }

  #afterEnd(data: string): EventKind {
    this.events++
    if (data.trim() === DONE || this.grammar.mayFollowEnd(data)) return 'end'
    this.#trails = true
    return 'other'
  }

  #note(read: StreamEvent): EventKind {
    const { kind, usage, finish, choice = 0, sequence } = read
    if (kind === 'comment') return kind
    if (this.events === 0 && sequence !== undefined) this.#firstSequence ??= sequence
    this.events++
    if (kind !== 'opening') this.#isWaiting = false
    if (usage !== undefined) this.#usage = mergedFields(this.#usage, usage)
    if (kind === 'output') this.outputs++
    else if (kind === 'usage') this.usageEvents++
    if (kind === 'output' || kind === 'structure') {
      this.#hasBegun = true
      this.#choices.add(choice)
    }
    if (finish !== undefined) {
      this.#finished.add(choice)
      if (GAVE_UP.has(finish)) this.#gaveUp ??= { status: null, message: `finish_reason ${finish}`, body: '' }
    }
    if (kind === 'error') this.#noteError(read.error)
    if (kind === 'end') this.#hasEnded = true
    return kind
  }

  #noteError(error: EngineError): void {
    if (!this.#hasBegun) this.#earlyError ??= error
    this.#error ??= error
  }

  #keep(event: Uint8Array, read: StreamEvent): void {
    if (this.grammar.numbered || this.#added >= MAX_ADDED) return
    this.#added++
    this.#known.repeated.add(event, read)
  }

  /** Makes a template of an output event that matched none. */
  #learn(event: Uint8Array, { choice, usage, finish }: StreamEvent & { readonly kind: 'output' }): void {
    if (usage !== undefined || finish !== undefined || this.#misses >= MAX_MISSES) return
    this.#misses++
    const plain = PlainChunk.of(event, choice, (data, text) => {
      const again = this.grammar.read(null, data)
      return (
        again.kind === 'output' &&
        again.text === text &&
        again.choice === choice &&
        again.usage === undefined &&
        again.finish === undefined
      )
    })
    if (plain === null) return
    this.#known.plain.add(plain)
    this.#last = plain
  }
}

/** Number of the first event, by that of a later one; 0: it has none. */
function firstSequenceOf({ event, at }: NumberedEvent): number {
  const members = new JsonMembers(['sequence_number'])
  members.take(event, 0, event.length)
  const first = Number(members.found.get('sequence_number')) - at
  return Number.isSafeInteger(first) && first >= 0 ? first : 0
}

/** The JSON object of an event's data. null: it is none. */
export function objectIn(data: string): JsonObject | null {
  try {
    const json: unknown = JSON.parse(data)
    return isJsonObject(json) ? json : null
  } catch {
    return null
  }
}
