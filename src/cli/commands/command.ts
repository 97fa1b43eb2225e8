/** Definition of a subcommand of `firstlight`. One file per command, one entry in `cli.ts`. */
import type { Lookup } from '../../platform/node/discovery.ts'

export { UsageError } from '../../platform/node/usage-error.ts'

/** Formats rows as lines with aligned columns. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length)
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}

const WIDTH = 30

export interface ProgressBar {
  draw(done: number, of: number): void
  clear(): void
}

/** Draws a progress bar on standard error if it is a terminal; otherwise prints nothing, so that logs stay readable. */
export function progressBar(
  label: string,
  stream: { readonly isTTY?: boolean; write(text: string): unknown } = process.stderr,
): ProgressBar {
  if (stream.isTTY !== true) return { draw() {}, clear() {} }
  return {
    draw(done, of) {
      const filled = Math.round((WIDTH * done) / Math.max(1, of))
      stream.write(`\r${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${done}/${of} ${label}`)
    },
    clear() {
      stream.write('\r\u001b[K')
    },
  }
}

export interface Flag {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  /** May be given more than once. */
  readonly multiple?: boolean
  /** Placeholder of the value in the help: `FILE`, `PORT`. */
  readonly value?: string
  readonly about: string
}

export interface Command {
  readonly name: string
  /** One line in the list of commands. */
  readonly summary: string
  /** Complete command lines that work as printed. */
  readonly examples: readonly string[]
  /** Flags by long name, without dashes. Every command has `--help`. */
  readonly flags: Readonly<Record<string, Flag>>
  /** By flag: flags that have no effect beside it and are rejected. */
  readonly instead?: Readonly<Record<string, readonly string[]>>
  /** Positional arguments as shown in the help; null: none. */
  readonly positionals: string | null
  /** Resolves with the exit code. A UsageError is printed with its next step. */
  run(args: Args, io: Io): Promise<number>
}

/** Parsed command line. */
export interface Args {
  readonly positionals: readonly string[]
  text(flag: string): string | null
  texts(flag: string): readonly string[]
  on(flag: string): boolean
  /** Reads a number within inclusive bounds; null if absent. Throws a UsageError that names the value. */
  number(flag: string, bounds: { readonly min: number; readonly max: number }): number | null
  /** Reads an integer within inclusive bounds; null if absent. Throws a UsageError that names the value. */
  whole(flag: string, bounds: { readonly min: number; readonly max: number }): number | null
}

/** I/O of a command, so that tests can replace it. */
export interface Io {
  out(line: string): void
  err(line: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted at the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted at a second signal: end without waiting. */
  readonly stopNow: AbortSignal
  /** Registers a handler of SIGUSR2. Absent: the signal is not delivered. */
  onReload?(reload: () => void): void
  /** DNS lookup. Absent: the system resolver. */
  readonly lookup?: Lookup
  /** Interactive terminal that `out` writes to. Absent: a file, a pipe or a simple terminal. */
  readonly terminal?: Terminal
}

/** A terminal that supports cursor control. */
export interface Terminal {
  size(): { readonly columns: number; readonly rows: number }
  write(text: string): void
  /** Switches to raw input without echo until the returned function is called. */
  take(events: TerminalEvents): () => void
  /** Suspends this job, as Ctrl-Z does. `onResume` handlers run when it continues. */
  suspend(): void
  /** Registers a handler that runs when this job continues. The returned function removes it. */
  onResume(resumed: () => void): () => void
}

export interface TerminalEvents {
  /** One key, several keys, or pasted text. */
  onKeys(keys: string): void
  onResize(): void
  /** The process is about to exit. Only synchronous writes are possible. */
  onEnd(): void
}
