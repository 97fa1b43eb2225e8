/** Definition of a subcommand of `firstlight`. One file per command, one entry in `cli.ts` or `bin/commands.ts`. */
import type { Lookup } from '../../platform/node/dns-lookup.ts'
import type { Terminal } from '../terminal.ts'
import type { ProgressStream } from './progress-stream.ts'

interface Flag {
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

/** A command whose modules are loaded when it is asked for. */
interface LazyCommand {
  readonly name: string
  load(): Promise<Command>
}

export type CommandEntry = Command | LazyCommand

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
  /** Asks the user. Absent: the input is no terminal. */
  question?(text: string): Promise<string>
  /** Standard error as a stream, for progress bars. Absent: none are drawn. */
  readonly progress?: ProgressStream
  /** Interactive terminal that `out` writes to. Absent: a file, a pipe or a simple terminal. */
  readonly terminal?: Terminal
}
