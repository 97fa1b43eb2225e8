/** The alternate screen of the terminal: entered, updated in place, and restored on every exit. */
import type { Terminal } from '../terminal.ts'
import { encodeLine, type TextLine } from './spans.ts'

/** Alternate screen, hidden cursor, no line wrap. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[H\u001b[2J'

const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l'

/** Synchronized update sequences: supporting terminals show no partial frames, others ignore them. */
const [BEGIN, END] = ['\u001b[?2026h', '\u001b[?2026l']

const TO_END_OF_LINE = '\u001b[K'

interface ScreenEvents {
  onKeys(keys: string): void
  onResize(): void
}

export class Screen {
  readonly #terminal: Terminal
  readonly #colours: boolean
  readonly #events: ScreenEvents
  #giveBack: (() => void) | null = null
  /** Lines on the screen. */
  #drawn: readonly string[] = []

  constructor(terminal: Terminal, events: ScreenEvents, colours: boolean) {
    this.#terminal = terminal
    this.#events = events
    this.#colours = colours
  }

  get isOpen(): boolean {
    return this.#giveBack !== null
  }

  get size(): { readonly columns: number; readonly rows: number } {
    return this.#terminal.size()
  }

  open(): void {
    if (this.isOpen) return
    this.#giveBack = this.#terminal.capture({ ...this.#events, onEnd: () => this.close() })
    this.forget()
    this.#terminal.write(ENTER)
  }

  /** Idempotent. */
  close(): void {
    const giveBack = this.#giveBack
    if (giveBack === null) return
    this.#giveBack = null
    try {
      this.#terminal.write(LEAVE)
    } finally {
      giveBack()
    }
  }

  /** Discards the knowledge of the screen, because terminals wrap or cut lines on a resize. */
  forget(): void {
    this.#drawn = []
  }

  /** Writes only the changed lines, in one write. */
  draw(lines: readonly TextLine[]): void {
    if (!this.isOpen) return
    const { columns, rows } = this.size
    const next = Array.from({ length: rows }, (_, row) =>
      encodeLine(lines[row] ?? [], { cells: columns, colours: this.#colours }),
    )
    const changed = next.flatMap((text, row) =>
      text === this.#drawn[row] ? [] : [`\u001b[${row + 1};1H${TO_END_OF_LINE}${text}`],
    )
    this.#drawn = next
    if (changed.length > 0) this.#terminal.write(BEGIN + changed.join('') + END)
  }
}
