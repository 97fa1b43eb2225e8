import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import { failures } from '../../failure.ts'
import { serverTiming } from '../stage-timer.ts'
import { concatBytes } from '../../bytes.ts'

/* Finder for the id of a stored response (`/v1/responses`) in a passing body. */

/** Bytes that are searched. The id is near the start of the body, or in the first event. */
const LOOK_BYTES = 4096
const QUOTE = 0x22
const ID = /"id"\s*:\s*"(resp_[\w.:=-]{1,190})"/

export class ResponseIdFinder {
  readonly #found: (id: string) => void
  #pieces: Uint8Array[] = []
  #size = 0
  #over = false

  /** @param found called at most once, inside the `take` that got the last byte of the id. */
  constructor(found: (id: string) => void) {
    this.#found = found
  }

  /** null for a caller without a callback. */
  static for(found: ((id: string) => void) | undefined): ResponseIdFinder | null {
    return found === undefined ? null : new ResponseIdFinder(found)
  }

  /** No id was found yet, and the limit is not reached. */
  get looks(): boolean {
    return !this.#over
  }

  take(chunk: Uint8Array): void {
    if (this.#over) return
    const piece = chunk.subarray(0, LOOK_BYTES - this.#size)
    // A copy: the caller may reuse the memory.
    this.#pieces.push(new Uint8Array(piece))
    this.#size += piece.length
    // An id ends with a quote, so a piece without one cannot complete it.
    const id = piece.includes(QUOTE)
      ? (ID.exec(new TextDecoder().decode(concatBytes(this.#pieces, this.#size)))?.[1] ?? null)
      : null
    if (id === null && this.#size < LOOK_BYTES) return
    this.#over = true
    this.#pieces = []
    if (id !== null) this.#found(id)
  }
}

const encoder = new TextEncoder()

/**
 * Appends the stages to a stream as a last comment, which readers of events skip. They were not known when the head
 * was sent.
 */
export function withLastComment(response: Response, stages: () => StageTimes): Response {
  if (response.body === null) return response
  const end = new TransformStream<Uint8Array, Uint8Array>({
    // Not called for a truncated stream.
    flush: (controller) => controller.enqueue(encoder.encode(`: server-timing ${serverTiming(stages())}\n\n`)),
  })
  return new Response(response.body.pipeThrough(end), { status: response.status, headers: response.headers })
}

/* The SSE event that reports a truncated stream to a client, in the format of the endpoint. */

const CODE = failures.engine_cut.code

/**
 * @param path the engine's path
 * @param notContinued why no other engine continued the stream; null: that was not requested
 */
export function errorEvent(path: string, failure: AttemptFailure, notContinued: NotContinued | null): Uint8Array {
  const why = notContinued === null ? '' : ` No other engine continued it (${notContinued}).`
  return encoder.encode(eventText(path, messageOf(failure) + why))
}

function eventText(path: string, message: string): string {
  if (path.startsWith('/v1/messages')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message } })}\n\n`
  }
  if (path.startsWith('/v1/responses')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', code: CODE, message, param: null })}\n\n`
  }
  return `data: ${JSON.stringify({ error: { message, type: failures.engine_cut.type, param: null, code: CODE } })}\n\n`
}

function messageOf(failure: AttemptFailure): string {
  if (failure === 'first_byte_timeout')
    return 'The engine did not begin its answer in time. Nothing was generated; try again.'
  if (failure === 'idle_timeout') return 'The engine stopped sending in the middle of its answer, which is incomplete.'
  return 'The engine broke off in the middle of its answer, which is incomplete.'
}

/** Boundaries of server-sent events (WHATWG HTML, 9.2.6) in bytes that arrive in arbitrary pieces. */

/**
 * Detects the end mark of a stream. OpenAI's streams end in `data: [DONE]`; a failed engine may close the connection
 * cleanly without it.
 */

/** Bytes kept: the mark, the blank line, and one or two comments after it. */
const KEPT_BYTES = 128
/** The space is optional (TGI leaves it out), and keep-alive comments may follow. */
const MARK = /(?:^|[\r\n])data: ?\[DONE\][ \t]*(?:[\r\n](?::[^\r\n]*)?)*$/
const REMARKS = /^(?:[\r\n]|:[^\r\n]*(?:[\r\n]|$))*$/
const latin1 = new TextDecoder('latin1')
/** `[DONE]` */
const DONE = Uint8Array.of(91, 68, 79, 78, 69, 93)
const DATA_BYTES = 5

/** A range of bytes. */
interface Stretch {
  readonly from: number
  readonly to: number
  readonly whole: boolean
}

/** Whether the range is one line and the blank line that ends its event. */
export function isOneLine(bytes: Uint8Array, from: number, to: number): boolean {
  return (
    to - from > 2 &&
    bytes[to - 1] === LF &&
    bytes[to - 2] === LF &&
    bytes[from] !== LF &&
    bytes.indexOf(LF, from) === to - 2
  )
}

/** Keeps the last bytes of a stream. */
export class DoneDetector {
  /** Bytes after the last whole event. null: none. */
  #kept: Uint8Array | null = null
  #size = 0
  #said = false

  /** Takes the next bytes of the stream. `whole`: they are exactly one event. */
  take(bytes: Uint8Array, { from, to, whole }: Stretch): void {
    if (!whole || !isOneLine(bytes, from, to) || (bytes[from] !== DATA && bytes[from] !== COLON))
      this.#keep(bytes.subarray(from, to))
    else if (bytes[from] === DATA) this.event(bytes, from, to)
  }

  /** Takes one whole event with one `data` line. */
  event(bytes: Uint8Array, from: number, to: number): void {
    this.#kept = null
    this.#size = 0
    const at = bytes[from + DATA_BYTES] === 32 ? from + DATA_BYTES + 1 : from + DATA_BYTES
    this.#said = at + DONE.length + 2 === to && DONE.every((byte, i) => bytes[at + i] === byte)
  }

  #keep(bytes: Uint8Array): void {
    const kept = (this.#kept ??= new Uint8Array(KEPT_BYTES))
    const { length } = bytes
    if (length >= KEPT_BYTES) {
      kept.set(bytes.subarray(length - KEPT_BYTES))
      this.#size = KEPT_BYTES + 1
      return
    }
    kept.copyWithin(0, length)
    kept.set(bytes, KEPT_BYTES - length)
    this.#size += length
  }

  /** Only blanks and comments follow the mark. */
  get done(): boolean {
    if (this.#kept === null) return this.#said
    const text = latin1.decode(this.#kept.subarray(Math.max(0, KEPT_BYTES - this.#size)))
    return MARK.test(text) || (this.#said && this.#size <= KEPT_BYTES && REMARKS.test(text))
  }
}

const LF = 10
const CR = 13
const COLON = 58
/** `d`, the first letter of `data` and of no other field. */
const DATA = 100

/** Finds the ends of events. One state machine for all chunks of a stream; it keeps no bytes. */
export class SseScanner {
  #line = false
  #data = false
  #open = false
  #closedData = false

  /** The position is between two events. */
  get atBoundary(): boolean {
    return !this.#open && !this.#line
  }

  /** The event that `next` just ended had a `data` line. */
  get closedData(): boolean {
    return this.#closedData
  }

  /** Index after the blank line that ends the event at `from`. -1: the chunk ends first. */
  next(chunk: Uint8Array, from: number): number {
    let at = from
    for (;;) {
      const newline = chunk.indexOf(LF, at)
      if (newline < 0) {
        this.#partial(chunk, at)
        return -1
      }
      const bare = newline === at || (newline === at + 1 && chunk[at] === CR)
      if (!this.#line && bare) {
        this.#closedData = this.#data
        this.#data = this.#open = false
        return newline + 1
      }
      if (!this.#line && chunk[at] === DATA) this.#data = true
      this.#line = false
      this.#open = true
      at = newline + 1
    }
  }

  #partial(chunk: Uint8Array, at: number): void {
    const left = chunk.length - at
    // A lone CR may be half of the blank line's CRLF.
    if (left === 0 || (left === 1 && chunk[at] === CR)) return
    if (!this.#line && chunk[at] === DATA) this.#data = true
    this.#line = true
  }
}

/**
 * Detects the first byte that is more than a keep-alive. Engines may send SSE comments during the prefill; counting
 * one as the first token would end failover too early and falsify the learned rates.
 */
export class LeadingComments {
  #comment = false

  /** Whether the range of the chunk has anything but comments and blank lines. */
  hasContent(chunk: Uint8Array, from = 0, to = chunk.length): boolean {
    let at = from
    while (at < to) {
      if (!this.#comment) {
        const byte = chunk[at]!
        if (byte === LF || byte === CR) {
          at++
          continue
        }
        if (byte !== COLON) return true
        this.#comment = true
      }
      const newline = chunk.indexOf(LF, at)
      if (newline < 0 || newline >= to) return false
      this.#comment = false
      at = newline + 1
    }
    return false
  }
}
