/** The terminal's other screen: taken, drawn on in place, and given back however this ends. */
import type { Terminal } from '../commands/command.ts'
import { painted, type Line } from './spans.ts'

/** The other screen, no cursor, and no line that goes on in the next one. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[H\u001b[2J'
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l'
/** Between these a terminal that knows them shows nothing half drawn; the others pass over them. */
const [BEGIN, END] = ['\u001b[?2026h', '\u001b[?2026l']
const TO_END_OF_LINE = '\u001b[K'

export interface ScreenEvents {
  onKeys(keys: string): void
  onResize(): void
}

export class Screen {
  readonly #terminal: Terminal
  readonly #colours: boolean
  readonly #events: ScreenEvents
  #giveBack: (() => void) | null = null
  /** What stands there, line by line. */
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
    this.#giveBack = this.#terminal.take({ ...this.#events, onEnd: () => this.close() })
    this.forget()
    this.#terminal.write(ENTER)
  }

  /** May be called again. */
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

  /** What stands there is not what was drawn: after a resize terminals wrap or cut lines, each in its own way. */
  forget(): void {
    this.#drawn = []
  }

  /** Writes only the lines that changed, in one piece. */
  draw(lines: readonly Line[]): void {
    if (!this.isOpen) return
    const { columns, rows } = this.size
    const next = Array.from({ length: rows }, (_, row) => painted(lines[row] ?? [], { cells: columns, colours: this.#colours }))
    const changed = next.flatMap((text, row) => (text === this.#drawn[row] ? [] : [`\u001b[${row + 1};1H${TO_END_OF_LINE}${text}`]))
    this.#drawn = next
    if (changed.length > 0) this.#terminal.write(BEGIN + changed.join('') + END)
  }
}
