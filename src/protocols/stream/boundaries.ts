/** Boundaries of server-sent events (WHATWG HTML, 9.2.6) in bytes that arrive in arbitrary pieces. */

const LF = 10
const CR = 13
const COLON = 58

/** Finds the ends of events. One state machine for all chunks of a stream; it keeps no bytes. */
export class EventBoundaries {
  #isInLine = false
  /** The current line is a comment. */
  #isComment = false
  #isOpen = false

  /** The position is between two events: an event or a comment may be put here. Comment lines begin no event. */
  get atBoundary(): boolean {
    return !this.#isOpen && !this.#isInLine
  }

  /** Index after the blank line that ends the event at `from`. -1: the range ends first. */
  next(chunk: Uint8Array, from: number, to: number): number {
    let at = from
    while (at < to) {
      const newline = chunk.indexOf(LF, at)
      if (newline < 0 || newline >= to) {
        // A lone CR may be half of the blank line's CRLF.
        if (to - at > 1 || (to > at && chunk[at] !== CR)) this.#beginLine(chunk[at]!)
        return -1
      }
      const isBlank = newline === at || (newline === at + 1 && chunk[at] === CR)
      if (!this.#isInLine && isBlank) {
        this.#isOpen = false
        return newline + 1
      }
      if (this.#isInLine ? !this.#isComment : chunk[at] !== COLON) this.#isOpen = true
      this.#isInLine = false
      at = newline + 1
    }
    return -1
  }

  #beginLine(first: number): void {
    if (!this.#isInLine) this.#isComment = first === COLON
    this.#isInLine = true
  }
}

/** One event as its fields. */
interface EventFields {
  readonly name: string | null
  /** All `data` lines, joined. null: there is none. */
  readonly data: string | null
  /** Value of a field `error`, as llama.cpp sent errors before 2025. null: there is none. */
  readonly error: string | null
}

/** Splits the text of one event into its fields. Comments and unknown fields are left out. */
export function fieldsOf(event: string): EventFields {
  let name: string | null = null
  let data: string | null = null
  let error: string | null = null
  // Not `split`: a regular expression and a list cost more than the rest.
  for (let at = event.startsWith('\uFEFF') ? 1 : 0; at < event.length;) {
    const feed = event.indexOf('\n', at)
    const next = feed < 0 ? event.length : feed + 1
    const to = feed > at && event[feed - 1] === '\r' ? feed - 1 : feed < 0 ? event.length : feed
    const line = event.slice(at, to)
    at = next
    const colon = line.indexOf(':')
    if (colon === 0 || line === '') continue
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') data = data === null ? value : `${data}\n${value}`
    else if (field === 'event') name = value
    else if (field === 'error') error = value
  }
  return { name, data, error }
}
