/** All commands of `firstlight`. Only this file imports packages, each when its command is asked for. */
import { gatewayCommands, loadAll, run } from '../src/cli/cli.ts'
import type { Command, CommandEntry, Io } from '../src/cli/commands/command.ts'
import { completionCommand } from '../src/cli/commands/completion.ts'

const { init, serve, check, doctor, top, bridge, vocab, key } = gatewayCommands

/** In the order of the help. */
const entries: readonly CommandEntry[] = [
  init,
  serve,
  check,
  doctor,
  { name: 'demo', load: async () => (await import('../packages/simulator/src/commands/demo.ts')).demo },
  { name: 'fleet', load: async () => (await import('../packages/simulator/src/commands/fleet.ts')).fleet },
  top,
  { name: 'replay', load: async () => (await import('../packages/replay/src/commands/replay.ts')).replay },
  { name: 'calibrate', load: async () => (await import('../packages/replay/src/commands/calibrate.ts')).calibrate },
  { name: 'load', load: async () => (await import('../packages/replay/src/commands/load.ts')).load },
  bridge,
  vocab,
  key,
  { name: 'convert', load: async () => (await import('../packages/convert/src/commands/convert.ts')).convert },
  completionCommand(() => commands()),
]

/** Loads every command, for the help of all and for the documentation. */
export const commands = (): Promise<readonly Command[]> => loadAll(entries)

/** Runs a command line. Resolves with the exit code: 0 success, 1 failure, 2 invalid command line. */
export const main = (argv: readonly string[], io: Io): Promise<number> => run(argv, io, entries)
