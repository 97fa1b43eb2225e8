/** Reads a response's bytes as they pass: data events, event boundaries, usage. Can remove the usage record. */
import type { Usage } from '../../core/contract/outcome.ts'
import { concatBytes } from '../../bytes.ts'
import { SseScanner } from './sse-scanner.ts'
import { DoneDetector, isOneLine } from './done-detector.ts'
import { usageOf, UsageScanner } from './usage.ts'

/** Limit, bytes, of an incomplete event that is held back. A longer one is no usage record and passes at once. */
const HELD_BYTES = 64 * 1024

export interface Tap {
  /** `data:` events so far, including `[DONE]`. */
  readonly events: number
  /** The emitted bytes end at the end of an event. */
  readonly atBoundary: boolean
  /** Bytes held back. While it is not 0, the tap references memory of the chunks it took. */
  readonly heldBytes: number
  /** The stream's last event is `data: [DONE]`. Always true for a body that is no stream. */
  readonly done: boolean
  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void
  /**
   * Counts a range that is exactly one `data` line or comment and passes unchanged. The caller makes sure that it has
   * no usage. false: it is something else; `take` it.
   */
  takesWhole(bytes: Uint8Array, from: number, to: number): boolean
  /** Emits what was held back at the end of the body. */
  end(emit: (piece: Uint8Array) => void): void
  usage(): Usage | null
}

export function openTap(sse: boolean, hideUsage: boolean): Tap {
  if (!sse) return new BodyTap()
  return hideUsage ? new UsageStrippingTap() : new StreamTap()
}

const COLON = 58
/** `d`, the first letter of `data` and of no other field. */
const DATA = 100
/** `}` */
const CLOSE = 125

/** A body that is no event stream. */
class BodyTap implements Tap {
  readonly events = 0
  readonly atBoundary = false
  readonly heldBytes = 0
  readonly done = true
  readonly #usageScanner = new UsageScanner()

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    this.#usageScanner.scan(chunk, 0, chunk.length)
    emit(chunk)
  }

  takesWhole(): boolean {
    return false
  }

  end(): void {
    // This tap holds nothing back.
  }

  usage(): Usage | null {
    return this.#usageScanner.usage()
  }
}

/** A stream that passes unchanged. */
class StreamTap implements Tap {
  events = 0
  readonly heldBytes = 0
  readonly #sseScanner = new SseScanner()
  readonly #usageScanner = new UsageScanner()
  readonly #doneDetector = new DoneDetector()

  get done(): boolean {
    return this.#doneDetector.done
  }

  get atBoundary(): boolean {
    return this.#sseScanner.atBoundary
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    for (let from = 0; from < chunk.length;) {
      const begins = this.#sseScanner.atBoundary
      const end = this.#sseScanner.next(chunk, from)
      if (end >= 0 && this.#sseScanner.closedData) this.events++
      const to = end < 0 ? chunk.length : end
      this.#doneDetector.take(chunk, { from, to, whole: begins && end >= 0 })
      from = to
    }
    this.#usageScanner.scan(chunk, 0, chunk.length)
    emit(chunk)
  }

  takesWhole(bytes: Uint8Array, from: number, to: number): boolean {
    if (!this.#sseScanner.atBoundary || !this.#usageScanner.idle || !isOneLine(bytes, from, to)) return false
    if (bytes[from] === COLON) return true
    if (bytes[from] !== DATA) return false
    this.events++
    this.#doneDetector.event(bytes, from, to)
    return true
  }

  end(): void {
    // This tap holds nothing back.
  }

  usage(): Usage | null {
    return this.#usageScanner.usage()
  }
}

/** Passes whole events except the usage record. An incomplete event waits for its end. */
class UsageStrippingTap implements Tap {
  events = 0
  readonly #sseScanner = new SseScanner()
  readonly #usageScanner = new UsageScanner()
  readonly #doneDetector = new DoneDetector()
  #held: Uint8Array[] = []
  heldBytes = 0
  /** Usage objects before the current event. */
  #foundBefore = 0
  /** Usage in the record that was removed. */
  #hidden: Usage | null = null
  /** Part of the current event was emitted, so the rest must be too. */
  #passing = false

  get atBoundary(): boolean {
    return !this.#passing
  }

  get done(): boolean {
    return this.#doneDetector.done
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    let done = 0
    let at = 0
    for (;;) {
      const begins = this.#sseScanner.atBoundary
      const end = this.#sseScanner.next(chunk, at)
      const whole = begins && end >= 0
      if (end >= 0 || at < chunk.length)
        this.#doneDetector.take(chunk, { from: at, to: end < 0 ? chunk.length : end, whole })
      const endsAsRecord = whole && this.#endsAsRecord(chunk, at, end)
      if (endsAsRecord && this.#hides(chunk.subarray(at, end))) {
        if (at > done) emit(chunk.subarray(done, at))
        done = at = end
        continue
      }
      this.#usageScanner.scan(chunk, at, end < 0 ? chunk.length : end)
      if (end < 0) break
      const counted = this.#usageScanner.found > this.#foundBefore
      this.#foundBefore = this.#usageScanner.found
      if (counted && !endsAsRecord && !this.#passing && this.#hides(this.#event(chunk.subarray(at, end)))) {
        if (at > done) emit(chunk.subarray(done, at))
        done = end
        this.#forget()
      } else {
        if (counted) this.#hidden = null
        if (this.#sseScanner.closedData) this.events++
        this.#letGo(emit)
      }
      this.#passing = false
      at = end
    }
    if (at > done) emit(chunk.subarray(done, at))
    if (at < chunk.length) this.#hold(chunk.subarray(at), emit)
  }

  takesWhole(bytes: Uint8Array, from: number, to: number): boolean {
    if (
      !this.#sseScanner.atBoundary ||
      this.heldBytes > 0 ||
      this.#passing ||
      !this.#usageScanner.idle ||
      !isOneLine(bytes, from, to)
    )
      return false
    if (bytes[from] === COLON) return true
    if (bytes[from] !== DATA) return false
    this.events++
    this.#doneDetector.event(bytes, from, to)
    return true
  }

  end(emit: (piece: Uint8Array) => void): void {
    this.#letGo(emit)
  }

  usage(): Usage | null {
    return this.#hidden ?? this.#usageScanner.usage()
  }

  /** Engines write the record in one piece with the usage last, so it needs no search. */
  #endsAsRecord(chunk: Uint8Array, from: number, end: number): boolean {
    return (
      this.heldBytes === 0 &&
      !this.#passing &&
      this.#usageScanner.idle &&
      end - from > 4 &&
      chunk[end - 3] === CLOSE &&
      chunk[end - 4] === CLOSE
    )
  }

  /** Whether the event is the record. Keeps its usage. */
  #hides(event: Uint8Array): boolean {
    const record = usageRecord(event)
    if (record === null) return false
    this.#hidden = usageOf(record)
    return true
  }

  #event(last: Uint8Array): Uint8Array {
    return this.heldBytes === 0 ? last : concatBytes([...this.#held, last], this.heldBytes + last.length)
  }

  #hold(piece: Uint8Array, emit: (piece: Uint8Array) => void): void {
    if (this.#passing) return emit(piece)
    this.#held.push(piece)
    this.heldBytes += piece.length
    if (this.heldBytes <= HELD_BYTES) return
    this.#letGo(emit)
    this.#passing = true
  }

  #letGo(emit: (piece: Uint8Array) => void): void {
    for (const piece of this.#held) emit(piece)
    this.#forget()
  }

  #forget(): void {
    this.#held = []
    this.heldBytes = 0
  }
}

const utf8 = new TextDecoder()

/** Usage in the record that closes a stream with `include_usage`: it has usage and no choice. null: another event. */
function usageRecord(event: Uint8Array): Readonly<Record<string, unknown>> | null {
  const text = utf8.decode(event)
  const from = text.indexOf('{')
  const to = text.lastIndexOf('}')
  if (from < 0 || to < from) return null
  try {
    const { choices, usage } = JSON.parse(text.slice(from, to + 1)) as { choices?: unknown; usage?: unknown }
    if (!Array.isArray(choices) || choices.length > 0 || typeof usage !== 'object') return null
    return usage as Readonly<Record<string, unknown>> | null
  } catch {
    return null
  }
}
