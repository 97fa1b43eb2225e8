/** The `firstlight` command: finds the subcommand, runs it, and prints errors with a next step. */
import { ConfigError } from '../config/problem.ts'
import { didYouMean } from '../config/suggest.ts'
import { VocabularyError } from '../core/tokens/vocabulary.ts'
import { hasConfig } from '../platform/node/load-config.ts'
import { explainSystemError } from '../platform/node/system-error.ts'
import { readArgs } from './commands/args.ts'
import { bridge } from './commands/bridge.ts'
import { check } from './commands/check.ts'
import type { Command, CommandEntry, Io } from './commands/command.ts'
import { UsageError } from '../platform/node/usage-error.ts'
import { doctor } from './commands/doctor.ts'
import { init } from './commands/init.ts'
import { key } from './commands/key.ts'
import { serve } from './commands/serve.ts'
import { top } from './commands/top.ts'
import { vocab } from './commands/vocab.ts'
import { commandHelp, mainHelp } from './help.ts'
import { versionText } from './version-text.ts'

/** The subcommands that need no package. */
export const gatewayCommands = { init, serve, check, doctor, top, bridge, vocab, key }

/** Loads every command, in the order of the entries. */
export const loadAll = (entries: readonly CommandEntry[]): Promise<readonly Command[]> =>
  Promise.all(entries.map(loaded))

const loaded = async (entry: CommandEntry): Promise<Command> => ('load' in entry ? entry.load() : entry)

/**
 * Runs a command line. Resolves with the exit code: 0 success, 1 failure, 2 invalid command line.
 *
 * @param entries all subcommands, in the order of the help
 */
export async function run(argv: readonly string[], io: Io, entries: readonly CommandEntry[]): Promise<number> {
  try {
    return await dispatch(argv, io, entries)
  } catch (error) {
    return report(error, io)
  }
}

async function dispatch(argv: readonly string[], io: Io, entries: readonly CommandEntry[]): Promise<number> {
  const [first, ...rest] = argv
  if (first === '--version' || first === '-v' || first === 'version') {
    io.out(versionText())
    return 0
  }
  if (first === '--help' || first === '-h' || first === 'help') {
    io.out(await help(rest[0], entries))
    return 0
  }
  const named = first !== undefined && !first.startsWith('-')
  const command = await find(named ? first : byDefault(argv, io, entries), entries)
  const args = readArgs(command, named ? rest : argv)
  if (args.help) {
    io.out(commandHelp(command))
    return 0
  }
  return command.run(args, io)
}

/** Names `serve` if a configuration exists or there is no demo, else the demo. */
function byDefault(argv: readonly string[], io: Io, entries: readonly CommandEntry[]): string {
  const namesConfig = argv.some((word) => word === '-c' || word.startsWith('--config'))
  return namesConfig || hasConfig(io.env) || !entries.some(({ name }) => name === 'demo') ? 'serve' : 'demo'
}

const help = async (name: string | undefined, entries: readonly CommandEntry[]): Promise<string> =>
  name === undefined ? mainHelp(await loadAll(entries)) : commandHelp(await find(name, entries))

async function find(name: string, entries: readonly CommandEntry[]): Promise<Command> {
  const entry = entries.find((one) => one.name === name)
  if (entry !== undefined) return loaded(entry)
  const names = entries.map((one) => one.name)
  throw new UsageError(
    `firstlight has no command "${name}"${didYouMean(name, names)}`,
    'Run firstlight --help for the list.',
  )
}

function report(error: unknown, io: Io): number {
  if (error instanceof UsageError) {
    io.err(error.message)
    io.err(error.next)
    return error.exitCode
  }
  if (error instanceof ConfigError) {
    io.err(error.message)
    io.err('docs/config.md lists every key; "firstlight check" validates a file.')
    return 1
  }
  if (error instanceof VocabularyError) {
    io.err(error.message)
    return 1
  }
  io.err(explainSystemError(error) ?? (error instanceof Error ? (error.stack ?? error.message) : String(error)))
  return 1
}
