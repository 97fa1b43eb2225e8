/** First lines (`event: NAME`) of the named events that a grammar knows, found by comparing bytes. */
import type { EventKind, Outline, StreamGrammar } from './event.ts'
import { isAt, viewOf, type Words, wordsOf } from './words.ts'

const LF = 10

/** First line of a named event, with its line feed, and what the name alone shows. */
export interface NamedLine {
  readonly name: string
  readonly words: Words
  /** null: the data decide. */
  readonly kind: EventKind | null
  /** Members that are read. null: none. */
  readonly outline: Outline | null
}

/** Lines by their length. They are made once for each grammar: a stream has few events of a name. */
export class NamedLines {
  readonly #byLength: NamedLine[][] = []
  #maxBytes = 0

  constructor({ named, outlines }: Pick<StreamGrammar, 'named' | 'outlines'>) {
    for (const [name, kind] of named) this.#add({ name, kind, outline: null })
    for (const [name, outline] of outlines) this.#add({ name, kind: null, outline })
  }

  /** The line that the event begins with. null: it is none of them. */
  find(bytes: Uint8Array, from: number, to: number): NamedLine | null {
    const last = Math.min(to, from + this.#maxBytes)
    let at = from
    while (at < last && bytes[at] !== LF) at++
    const lines = at < last ? this.#byLength[at + 1 - from] : undefined
    if (lines === undefined) return null
    for (let i = 0; i < lines.length; i++) if (isLineAt(bytes, from, to, lines[i]!)) return lines[i]!
    return null
  }

  #add(line: Omit<NamedLine, 'words'>): void {
    for (const space of [' ', ''])
      for (const end of ['\n', '\r\n']) {
        const words = wordsOf(new TextEncoder().encode(`event:${space}${line.name}${end}`))
        ;(this.#byLength[words.bytes] ??= []).push({ ...line, words })
        this.#maxBytes = Math.max(this.#maxBytes, words.bytes)
      }
  }
}

/** Whether the range begins with the line. */
export const isLineAt = (bytes: Uint8Array, from: number, to: number, { words }: NamedLine): boolean =>
  to - from > words.bytes && isAt(viewOf(bytes), bytes.byteOffset + from, words)
