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
import { PlainChunk, PlainChunks } from './plain-chunk.ts'
import { RepeatedChunks } from './repeated-chunk.ts'

/** Limit, bytes, of an event that is kept until its end. Of a longer one only the name and wanted members are read. */
const KEPT_BYTES = 64 * 1024
const NAME_LINE = /^(?:\uFEFF)?event: ?([^\r\n]*)\r?\n/
/** Longer names are no known ones. */
const NAME_BYTES = 80
/** First lines of named events that are compared with each event. */
const MAX_NAMES = 4
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
  name: string | null
  members: JsonMembers | null
}

/** Chunks that need no parser. */
interface KnownChunks {
  readonly plain: PlainChunks
  readonly repeated: RepeatedChunks
}

const knownChunks = new WeakMap<StreamGrammar, KnownChunks>()

function knownChunksOf(grammar: StreamGrammar): KnownChunks {
  let known = knownChunks.get(grammar)
  if (known === undefined)
    knownChunks.set(grammar, (known = { plain: new PlainChunks(), repeated: new RepeatedChunks() }))
  return known
}

/** First line of named events, which is compared instead of decoded. */
interface NamedLine {
  readonly line: Uint8Array
  readonly name: string
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
  /** First lines of the last named events. */
  readonly #names: NamedLine[] = []
  readonly #known: KnownChunks
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
  /** Choices that began, and those with a finish reason. */
  readonly #choices = new ChoiceSet()
  readonly #finished = new ChoiceSet()
  #hasEnded = false
  #trails = false

  constructor(grammar: StreamGrammar) {
    this.grammar = grammar
    this.#known = knownChunksOf(grammar)
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
    return this.grammar.numbered ? (this.#firstSequence ?? 0) + this.events : null
  }

  /** How the stream ended. Call it after the last byte. */
  outcome(): StreamOutcome {
    if (this.#error !== null) return 'error'
    if (this.grammar.endsAnywhere === true) return 'complete'
    const last = this.#kindOfRest()
    if (this.#trails || last === 'other' || (last !== 'end' && !this.#hasEnded)) return 'truncated'
    if (this.#gaveUp !== null) return 'error'
    if (!this.grammar.needsFinish) return 'complete'
    const isFinished = this.#finished.size > 0 && this.#finished.size >= this.#choices.size
    return isFinished ? 'complete' : 'unfinished'
  }

  /** Kind of the bytes after the last blank line: some engines leave it out at the end. `other`: half an event. */
  #kindOfRest(): 'comment' | 'end' | 'other' {
    if (this.#pieces === null) return 'comment'
    const { held, bytes } = this.#pieces
    const { name, data } = fieldsOf(held === null ? 'data: large' : utf8.decode(concatBytes(held, bytes)))
    if (data === null || (this.#hasEnded && data.trim() === DONE)) return 'comment'
    return this.grammar.read(name, data).kind === 'end' ? 'end' : 'other'
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
    if (bytes[from] === LETTER_D) {
      if (this.#findsPlain(bytes, from, to)) return this.#plainOutput()
      const repeated = this.#hasEnded ? null : this.#known.repeated.find(bytes, from, to)
      if (repeated !== null) return this.#note(repeated)
    }
    const name = bytes[from] === LETTER_E ? this.#nameAt(bytes, from, to) : null
    if (name === null) return this.#parsed(bytes.subarray(from, to))
    if (this.#firstSequence === null && this.grammar.numbered) this.#firstSequence = sequenceIn(bytes, from, to)
    const kind = this.grammar.named.get(name)
    if (kind !== undefined) return this.#named(kind)
    const outline = this.grammar.outlines.get(name)
    if (outline === undefined) return this.#parsed(bytes.subarray(from, to))
    const members = new JsonMembers(outline.keys, outline.within)
    members.take(bytes, from, to)
    return this.#outlined(name, members)
  }

  /** Reads a part of an event. Returns its kind at its end; null before. */
  part(bytes: Uint8Array, from: number, to: number, isLast: boolean): EventKind | null {
    const pieces = (this.#pieces ??= { held: [], bytes: 0, name: null, members: null })
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
    if (pieces.members !== null) return this.#outlined(pieces.name!, pieces.members)
    const kind = pieces.name === null ? undefined : this.grammar.named.get(pieces.name)
    return this.#named(kind ?? 'output')
  }

  /** Stops keeping a long event. */
  #release(pieces: Pieces): void {
    const held = concatBytes(pieces.held!, pieces.bytes)
    pieces.held = null
    pieces.name = this.#nameAt(held, 0, held.length)
    const outline = pieces.name === null ? undefined : this.grammar.outlines.get(pieces.name)
    if (outline === undefined) return
    pieces.members = new JsonMembers(outline.keys, outline.within)
    pieces.members.take(held, 0, held.length)
  }

  /** Name of the event, if its first line has it. */
  #nameAt(bytes: Uint8Array, from: number, to: number): string | null {
    for (const { line, name } of this.#names) if (isAt(bytes, from, to, line)) return name
    const found = NAME_LINE.exec(utf8.decode(bytes.subarray(from, Math.min(to, from + NAME_BYTES))))
    if (found === null || found[0].startsWith('\uFEFF')) return null
    const line = new TextEncoder().encode(found[0])
    this.#names.unshift({ line, name: found[1]! })
    if (this.#names.length > MAX_NAMES) this.#names.pop()
    return found[1]!
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

/** Number of an event; 0: it has none. */
function sequenceIn(bytes: Uint8Array, from: number, to: number): number {
  const members = new JsonMembers(['sequence_number'])
  members.take(bytes, from, to)
  const number = Number(members.found.get('sequence_number'))
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}

function isAt(bytes: Uint8Array, from: number, to: number, wanted: Uint8Array): boolean {
  if (from + wanted.length > to) return false
  for (let at = 0; at < wanted.length; at++) if (bytes[from + at] !== wanted[at]) return false
  return true
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
