/**
 * A terminal that records its visible screen. It implements the few sequences that `top` needs and rejects all others.
 */
import type { Terminal, TerminalEvents } from '../../../src/cli/terminal.ts'

export class FakeTerminal implements Terminal {
  columns: number
  rows: number
  isOther = false
  hasCursor = true
  wraps = true
  /** Raw mode: the command receives the keys. */
  isTaken = false
  suspended = 0
  /** All written text. */
  text = ''
  lines: string[] = []
  /** Called before every write; a test can throw here. */
  beforeWrite: (text: string) => void = () => undefined
  events: TerminalEvents | null = null
  resume: (() => void) | null = null
  #waiting: (() => void)[] = []

  constructor(columns = 80, rows = 24) {
    this.columns = columns
    this.rows = rows
  }

  size(): { columns: number; rows: number } {
    return { columns: this.columns, rows: this.rows }
  }

  write(text: string): void {
    this.beforeWrite(text)
    this.text += text
    let [row, column] = [0, 0]
    // oxlint-disable-next-line no-control-regex
    for (const [piece, parameters, kind] of text.matchAll(/\u001b\[([?0-9;]*)([A-Za-z])|[^\u001b]+|\u001b/g)) {
      if (kind === undefined) {
        // oxlint-disable-next-line no-control-regex
        if (/[\u0000-\u001f\u007f-\u009f]/.test(piece))
          throw new Error(`a control character was written: ${JSON.stringify(piece)}`)
        this.lines[row] = (this.lines[row] ?? '').slice(0, column) + piece
        column += piece.length
      } else if (kind === 'H') [row, column] = [Number(parameters!.split(';')[0] || 1) - 1, 0]
      else if (kind === 'K') this.lines[row] = (this.lines[row] ?? '').slice(0, column)
      else if (kind === 'J') this.lines = []
      else if (kind === 'h' || kind === 'l') this.#mode(parameters!, kind === 'h')
      else if (kind !== 'm') throw new Error(`an unknown sequence was written: ${JSON.stringify(piece)}`)
    }
    for (const look of this.#waiting) look()
  }

  #mode(mode: string, on: boolean): void {
    if (mode === '?1049') this.isOther = on
    else if (mode === '?25') this.hasCursor = on
    else if (mode === '?7') this.wraps = on
    else if (mode !== '?2026') throw new Error(`an unknown mode was set: ${mode}`)
  }

  capture(events: TerminalEvents): () => void {
    this.events = events
    this.isTaken = true
    return () => {
      this.events = null
      this.isTaken = false
    }
  }

  suspend(): void {
    this.suspended++
  }

  onResume(resumed: () => void): () => void {
    this.resume = resumed
    return () => (this.resume = null)
  }

  type(keys: string): void {
    this.events!.onKeys(keys)
  }

  resize(columns: number, rows: number): void {
    Object.assign(this, { columns, rows })
    this.lines = []
    this.events!.onResize()
  }

  /** Visible text, without trailing spaces. */
  get screen(): string {
    return this.lines.map((line) => line.trimEnd()).join('\n')
  }

  /** Whether the terminal's state is as before the command. */
  get isRestored(): boolean {
    return (
      !this.isOther && this.hasCursor && this.wraps && !this.isTaken && this.events === null && this.resume === null
    )
  }

  /** Resolves with the screen when it matches. */
  async shows(wanted: string | RegExp): Promise<string> {
    const isThere = () => (typeof wanted === 'string' ? this.screen.includes(wanted) : wanted.test(this.screen))
    while (!isThere()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return this.screen
  }
}
