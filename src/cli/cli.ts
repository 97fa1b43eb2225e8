/** The `firstlight` command: finds the subcommand, runs it, and prints errors with a next step. */
import packageJson from '../../package.json' with { type: 'json' }
import { ConfigError } from '../config/parse.ts'
import { didYouMean } from '../config/problem.ts'
import { VocabularyError } from '../core/tokens/vocabulary.ts'
import { readArgs } from './commands/args.ts'
import { UsageError, type Command, type Io, type Terminal, type TerminalEvents } from './commands/command.ts'
import { hasConfig } from '../platform/node/load-config.ts'
import {
  disableInspectorSignal,
  onReload,
  watchSignals,
  type Stop,
  explainSystemError,
} from '../platform/node/signals.ts'
import { bridge } from './commands/bridge.ts'
import { calibrate } from './commands/calibrate.ts'
import { check } from './commands/check.ts'
import { convert } from './commands/convert.ts'
import { demo } from './commands/demo.ts'
import { doctor } from './commands/doctor.ts'
import { fleet } from './commands/fleet.ts'
import { key } from './commands/key.ts'
import { load } from './commands/load.ts'
import { replay } from './commands/replay.ts'
import { serve } from './commands/serve.ts'
import { top } from './commands/top.ts'
import { vocab } from './commands/vocab.ts'
import { commit } from './commit.ts'
import type { ReadStream, WriteStream } from 'node:tty'

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

/* Help texts, generated from the table of commands. */

export function mainHelp(list: readonly Command[]): string {
  return [
    'Firstlight: one OpenAI endpoint over a fleet of LLM engines.',
    '',
    'Usage: firstlight [COMMAND] [FLAGS]',
    '',
    'Commands:',
    ...columns(list.map(({ name, summary }) => [name, summary])),
    '',
    'Without a command: serves ./firstlight.yaml, or runs the demo if there is none.',
    'Run firstlight COMMAND --help for flags and examples, firstlight --version for the version.',
  ].join('\n')
}

export function commandHelp(command: Command): string {
  const flags = Object.entries(command.flags).map(([name, flag]): [string, string] => {
    const short = flag.short === undefined ? '' : `-${flag.short}, `
    const value = flag.type === 'string' ? ` ${flag.value ?? 'VALUE'}` : ''
    return [`${short}--${name}${value}`, flag.about]
  })
  return [
    command.summary,
    '',
    `Usage: firstlight ${command.name}${command.positionals === null ? '' : ` ${command.positionals}`} [FLAGS]`,
    '',
    'Flags:',
    ...columns([...flags, ['-h, --help', 'Show this.']]),
    '',
    command.examples.length === 1 ? 'Example:' : 'Examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

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

/**
 * Creates the I/O of a command from the real process. Until a command requests `stop`, signals end the process as
 * usual.
 */
export function processIo(): Io {
  let signals: Stop | null = null
  disableInspectorSignal()
  const terminal = terminalOf(process)
  // A reader that closes the pipe early (`firstlight check | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  return {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    env: process.env,
    get stop() {
      signals ??= watchSignals()
      return signals.stop
    },
    get stopNow() {
      signals ??= watchSignals()
      return signals.stopNow
    },
    onReload,
    ...(terminal === undefined ? {} : { terminal }),
  }
}

/* The terminal of this process. */

type Input = Pick<ReadStream, 'isTTY' | 'setRawMode' | 'setEncoding' | 'on' | 'off' | 'resume' | 'pause'>
type Output = Pick<WriteStream, 'isTTY' | 'columns' | 'rows' | 'write' | 'on' | 'off'>

/** Standard streams and signals of a process. */
export interface ProcessStdio {
  readonly stdin: Input
  readonly stdout: Output
  readonly env: Readonly<Record<string, string | undefined>>
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
  kill(pid: number, signal: string): unknown
}

/** Returns undefined if standard output is not an interactive terminal. */
export function terminalOf(signals: ProcessStdio): Terminal | undefined {
  const { stdout, env } = signals
  if (stdout.isTTY !== true || env['TERM'] === 'dumb') return undefined
  return {
    // A terminal without a known size (a serial line) reports 0.
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    write: (text) => void stdout.write(text),
    take: (events) => taken(signals, events),
    // Stops the whole job, as the terminal does: a shell or npx may be the parent.
    suspend: () => void signals.kill(0, 'SIGTSTP'),
    onResume(resumed) {
      signals.on('SIGCONT', resumed)
      return () => void signals.off('SIGCONT', resumed)
    },
  }
}

const ENDS = ['exit', 'uncaughtExceptionMonitor'] as const

function taken(signals: ProcessStdio, { onKeys, onResize, onEnd }: TerminalEvents): () => void {
  const { stdin: input, stdout: output } = signals
  const hasSignals = input.isTTY === true
  if (hasSignals) {
    input.setRawMode(true)
    input.setEncoding('utf8')
    input.on('data', onKeys)
    input.resume()
  }
  output.on('resize', onResize)
  // The monitor runs before Node prints the error. Otherwise the error would appear on the alternate screen and be
  // lost.
  for (const end of ENDS) signals.on(end, onEnd)
  return () => {
    for (const end of ENDS) signals.off(end, onEnd)
    output.off('resize', onResize)
    if (!hasSignals) return
    input.off('data', onKeys)
    input.setRawMode(false)
    input.pause()
  }
}

/* Completion scripts of shells. */

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** @param list all commands, which the scripts complete with their flags */
function completionCommand(list: () => readonly Command[]): Command {
  return {
    name: 'completion',
    summary: 'Print a completion script for bash, zsh or fish.',
    examples: ['source <(firstlight completion bash)', 'firstlight completion fish | source'],
    flags: {},
    positionals: '<bash|zsh|fish>',
    async run({ positionals }, io) {
      const [shell] = positionals
      if (!SHELLS.some((one) => one === shell) || positionals.length !== 1)
        throw new UsageError(
          `completion takes one shell, not ${JSON.stringify(positionals.join(' '))}.`,
          `Name one of ${SHELLS.join(', ')}.`,
        )
      io.out(script(shell as Shell, list()))
      return 0
    },
  }
}

const flagsOf = (command: Command): string[] => [...Object.keys(command.flags), 'help'].map((name) => `--${name}`)

function script(shell: Shell, list: readonly Command[]): string {
  const names = list.map(({ name }) => name)
  if (shell === 'fish')
    return [
      ...list.map(
        ({ name, summary }) => `complete -c firstlight -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ),
      ...list.flatMap(({ name, flags }) =>
        Object.entries(flags).map(
          ([flag, { about, type }]) =>
            `complete -c firstlight -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -l ${flag} -d ` +
            `${quoted(about)}` +
            (type === 'string' ? ' -r' : ''),
        ),
      ),
    ].join('\n')
  const cases = list.map((command) => `    ${command.name}) words=${quoted(flagsOf(command).join(' '))} ;;`)
  return [
    // zsh runs functions of bash by its own emulation.
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_firstlight() {',
    '  local words',
    '  case "${COMP_WORDS[1]}" in',
    ...cases,
    '  esac',
    `  if [ "$COMP_CWORD" -eq 1 ]; then words=${quoted(names.join(' '))}; fi`,
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _firstlight firstlight',
  ].join('\n')
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
