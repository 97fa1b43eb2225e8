/** What a subcommand of `firstlight` is. One file per command, one line in `table.ts`. */
import type { Lookup } from '../../platform/node/discovery.ts'

export interface Flag {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  /** May be given more than once. */
  readonly multiple?: boolean
  /** What stands for the value in the help: `FILE`, `PORT`. */
  readonly value?: string
  readonly about: string
}

export interface Command {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  /** Whole command lines that work as they stand. */
  readonly examples: readonly string[]
  /** Flags by long name, without dashes. `--help` is everyone's. */
  readonly flags: Readonly<Record<string, Flag>>
  /** By flag: those that mean nothing beside it, and are refused there. */
  readonly instead?: Readonly<Record<string, readonly string[]>>
  /** How the help shows positional arguments; null: there are none. */
  readonly positionals: string | null
  /** Resolves with the exit code. A UsageError becomes one line and a next step. */
  run(args: Args, io: Io): Promise<number>
}

/** The command line after parsing, read by meaning. */
export interface Args {
  readonly positionals: readonly string[]
  text(flag: string): string | null
  texts(flag: string): readonly string[]
  on(flag: string): boolean
  /** A number within bounds (inclusive); null when the flag is absent. Throws a UsageError that names the value. */
  number(flag: string, bounds: { readonly min: number; readonly max: number }): number | null
  /** The same, of a number without a fraction. */
  whole(flag: string, bounds: { readonly min: number; readonly max: number }): number | null
}

/** The world outside a command, so that a test can be one. */
export interface Io {
  out(line: string): void
  err(line: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted at the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted at a second one: no more waiting. */
  readonly stopNow: AbortSignal
  /** Calls it at every SIGUSR2. Absent: nobody sends any. */
  onReload?(reload: () => void): void
  /** Addresses of names. Absent: as the system says. */
  readonly lookup?: Lookup
  /** Where `out` writes. Absent: that is a file, a pipe, or a terminal that can only print. */
  readonly terminal?: Terminal
}

/** A terminal whose screen can be drawn on. */
export interface Terminal {
  size(): { readonly columns: number; readonly rows: number }
  write(text: string): void
  /** Keys come unechoed, as they are typed, until the answer is called. */
  take(events: TerminalEvents): () => void
  /** Stops this job, as Ctrl-Z does; it goes on with `onResume`. */
  suspend(): void
  /** Told whenever this job goes on after it was stopped, until the answer is called. */
  onResume(resumed: () => void): () => void
}

export interface TerminalEvents {
  /** One key or several, or what was pasted. */
  onKeys(keys: string): void
  onResize(): void
  /** The process ends and nothing else will be called: the last chance to write. */
  onEnd(): void
}

/** The command line asks for something that cannot be done. `next` is what to do instead. */
export class UsageError extends Error {
  readonly next: string
  /** 1: the work was done, and something else went wrong. */
  readonly exitCode: 1 | 2

  constructor(message: string, next: string, exitCode: 1 | 2 = 2) {
    super(message)
    this.name = 'UsageError'
    this.next = next
    this.exitCode = exitCode
  }
}
