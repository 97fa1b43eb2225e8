/** The `firstlight` command: finds the subcommand, runs it, and prints errors with a next step. */
import packageJson from '../../package.json' with { type: 'json' }
import { ConfigError } from '../config/parse.ts'
import { didYouMean } from '../config/suggest.ts'
import { VocabularyError } from '../core/tokens/vocabulary.ts'
import { hasConfig } from '../platform/node/load-config.ts'
import { explainSystemError } from '../platform/node/system-error.ts'
import { readArgs } from './commands/args.ts'
import { bridge } from './commands/bridge.ts'
import { calibrate } from '../../packages/replay/src/commands/calibrate.ts'
import { check } from './commands/check.ts'
import { type Command, type Io, UsageError } from './commands/command.ts'
import { completionCommand } from './commands/completion.ts'
import { convert } from '../../packages/convert/src/commands/convert.ts'
import { demo } from '../../packages/simulator/src/commands/demo.ts'
import { doctor } from './commands/doctor.ts'
import { fleet } from '../../packages/simulator/src/commands/fleet.ts'
import { key } from './commands/key.ts'
import { load } from '../../packages/replay/src/commands/load.ts'
import { replay } from '../../packages/replay/src/commands/replay.ts'
import { serve } from './commands/serve.ts'
import { top } from './commands/top.ts'
import { vocab } from './commands/vocab.ts'
import { commit } from './commit.ts'
import { commandHelp, mainHelp } from './help.ts'

/** All subcommands in the order of the help. */
export const commands: readonly Command[] = [
  serve,
  check,
  doctor,
  demo,
  fleet,
  top,
  replay,
  calibrate,
  load,
  bridge,
  vocab,
  key,
  convert,
  completionCommand(() => commands),
]

/** Resolves with the exit code: 0 success, 1 failure, 2 invalid command line. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  try {
    return await dispatch(argv, io)
  } catch (error) {
    return report(error, io)
  }
}

async function dispatch(argv: readonly string[], io: Io): Promise<number> {
  const [first, ...rest] = argv
  if (first === '--version' || first === '-v' || first === 'version') {
    const hash = commit()
    io.out(`${packageJson.version}${hash === null ? '' : ` (commit ${hash})`}`)
    return 0
  }
  if (first === '--help' || first === '-h' || first === 'help') return help(rest[0], io)
  const named = first !== undefined && !first.startsWith('-')
  const command = named ? find(first) : byDefault(argv, io)
  const args = readArgs(command, named ? rest : argv)
  if (args.help) {
    io.out(commandHelp(command))
    return 0
  }
  return command.run(args, io)
}

/** Runs `serve` if a configuration exists, else the demo. */
function byDefault(argv: readonly string[], io: Io): Command {
  const asked = argv.some((word) => word === '-c' || word.startsWith('--config'))
  return find(asked || hasConfig(io.env) ? 'serve' : 'demo')
}

function help(name: string | undefined, io: Io): number {
  io.out(name === undefined ? mainHelp(commands) : commandHelp(find(name)))
  return 0
}

function find(name: string): Command {
  const command = commands.find((one) => one.name === name)
  if (command !== undefined) return command
  const names = commands.map((one) => one.name)
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
