/** Watches an answer's bytes pass: data events, where events end, usage; and can keep the usage record back. */
import type { Usage } from '../../core/contract/contract.ts'
import { concatBytes } from '../../bytes.ts'
import { SseScanner, DoneDetector, isOneLine } from './sse.ts'
import { usageOf, UsageScanner } from './usage.ts'

/** An unfinished event longer than this is no usage record: it is let through as it comes. */
const HELD_BYTES = 64 * 1024

export interface Tap {
  /** `data:` events that passed so far, `[DONE]` included. */
  readonly events: number
  /** What has been emitted ends where an event ends. */
  readonly atBoundary: boolean
  /** Bytes kept back: memory of the chunks taken stays in use while it is not 0. */
  readonly heldBytes: number
  /** The stream's last words so far are `data: [DONE]`; true for a body that is no stream. */
  readonly done: boolean
  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void
  /**
   * Does this range hold one `data` line or comment, no more and no less? It is counted then, and passes as it is; the
   * caller
   * has made sure that it does not speak of usage. false: `take` it.
   */
  takesWhole(bytes: Uint8Array, from: number, to: number): boolean
  /** The body has ended: lets go of what was kept back. */
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

/** A body that is not a stream of events. */
class BodyTap implements Tap {
  readonly events = 0
  readonly atBoundary = false
  readonly heldBytes = 0
  readonly done = true
  readonly #scanner = new UsageScanner()

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    this.#scanner.scan(chunk, 0, chunk.length)
    emit(chunk)
  }

  takesWhole(): boolean {
    return false
  }

  end(): void {
    // Nothing is ever kept back.
  }

  usage(): Usage | null {
    return this.#scanner.usage()
  }
}

/** Every byte passes as it came. */
class StreamTap implements Tap {
  events = 0
  readonly heldBytes = 0
  readonly #walker = new SseScanner()
  readonly #scanner = new UsageScanner()
  readonly #watch = new DoneDetector()

  get done(): boolean {
    return this.#watch.done
  }

  get atBoundary(): boolean {
    return this.#walker.atBoundary
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    for (let from = 0; from < chunk.length;) {
      const begins = this.#walker.atBoundary
      const end = this.#walker.next(chunk, from)
      if (end >= 0 && this.#walker.closedData) this.events++
      const to = end < 0 ? chunk.length : end
      this.#watch.take(chunk, { from, to, whole: begins && end >= 0 })
      from = to
    }
    this.#scanner.scan(chunk, 0, chunk.length)
    emit(chunk)
  }

  takesWhole(bytes: Uint8Array, from: number, to: number): boolean {
    if (!this.#walker.atBoundary || !this.#scanner.idle || !isOneLine(bytes, from, to)) return false
    if (bytes[from] === COLON) return true
    if (bytes[from] !== DATA) return false
    this.events++
    this.#watch.event(bytes, from, to)
    return true
  }

  end(): void {
    // Nothing is ever kept back.
  }

  usage(): Usage | null {
    return this.#scanner.usage()
  }
}

/** Passes whole events, all but the usage record. An event that is not whole yet waits for its end. */
class UsageStrippingTap implements Tap {
  events = 0
  readonly #walker = new SseScanner()
  readonly #scanner = new UsageScanner()
  readonly #watch = new DoneDetector()
  #held: Uint8Array[] = []
  heldBytes = 0
  /** Usage objects seen before the event going on. */
  #foundBefore = 0
  /** What the record that was left out last said. */
  #hidden: Usage | null = null
  /** A piece of the event going on has been let through, so all of it must be. */
  #passing = false

  get atBoundary(): boolean {
    return !this.#passing
  }

  get done(): boolean {
    return this.#watch.done
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    let done = 0
    let at = 0
    for (;;) {
      const begins = this.#walker.atBoundary
      const end = this.#walker.next(chunk, at)
      const whole = begins && end >= 0
      if (end >= 0 || at < chunk.length) this.#watch.take(chunk, { from: at, to: end < 0 ? chunk.length : end, whole })
      const looked = whole && this.#endsAsRecord(chunk, at, end)
      if (looked && this.#hides(chunk.subarray(at, end))) {
        if (at > done) emit(chunk.subarray(done, at))
        done = at = end
        continue
      }
      this.#scanner.scan(chunk, at, end < 0 ? chunk.length : end)
      if (end < 0) break
      const counted = this.#scanner.found > this.#foundBefore
      this.#foundBefore = this.#scanner.found
      if (counted && !looked && !this.#passing && this.#hides(this.#event(chunk.subarray(at, end)))) {
        if (at > done) emit(chunk.subarray(done, at))
        done = end
        this.#forget()
      } else {
        if (counted) this.#hidden = null
        if (this.#walker.closedData) this.events++
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
      !this.#walker.atBoundary ||
      this.heldBytes > 0 ||
      this.#passing ||
      !this.#scanner.idle ||
      !isOneLine(bytes, from, to)
    )
      return false
    if (bytes[from] === COLON) return true
    if (bytes[from] !== DATA) return false
    this.events++
    this.#watch.event(bytes, from, to)
    return true
  }

  end(emit: (piece: Uint8Array) => void): void {
    this.#letGo(emit)
  }

  usage(): Usage | null {
    return this.#hidden ?? this.#scanner.usage()
  }

  /** Records as engines write them come whole and say their usage last: they need no search. */
  #endsAsRecord(chunk: Uint8Array, from: number, end: number): boolean {
    return (
      this.heldBytes === 0 &&
      !this.#passing &&
      this.#scanner.idle &&
      end - from > 4 &&
      chunk[end - 3] === CLOSE &&
      chunk[end - 4] === CLOSE
    )
  }

  /** Is the event the record? Then what it says is kept. */
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

/**
 * The usage in the record that closes a stream asked with `include_usage`: usage, and no choice. null: another event.
 */
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
