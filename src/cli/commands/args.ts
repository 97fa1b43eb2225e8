/** Parses a command line by the flags of a command. */
import { parseArgs } from 'node:util'
import { didYouMean } from '../../config/problem.ts'
import { UsageError, type Args, type Command } from './command.ts'
import { createHash } from 'node:crypto'
import { chmodSync, closeSync, openSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { parseAddress } from '../../config/fields.ts'
import { readInput } from '../../platform/node/usage-error.ts'
import { readTrace, type Trace, TraceError, importTrace } from '../../simulator/replay/trace.ts'

/* Flags that several commands share. */

type Address = NonNullable<ReturnType<typeof parseAddress>>

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** Reads `--log-level`; null if absent. */
export const levelFlag = (args: Args): (typeof LEVELS)[number] | null => oneOfFlag(args, 'log-level', LEVELS, 'debug')

/** Reads a flag with a fixed set of values; null if absent. */
export function oneOfFlag<Word extends string>(
  args: Args,
  flag: string,
  words: readonly Word[],
  example: Word,
): Word | null {
  const text = args.text(flag)
  const known = words.find((word) => word === text)
  if (text !== null && known === undefined)
    throw new UsageError(
      `--${flag} must be one of ${words.join(', ')}, got "${text}".`,
      `Example: --${flag} ${example}`,
    )
  return known ?? null
}

/** Reads `--listen HOST:PORT`; null if absent. */
export function listenFlag(args: Args, example = '127.0.0.1:9000'): Address | null {
  const text = args.text('listen')
  if (text === null) return null
  const address = parseAddress(text)
  if (address === null)
    throw new UsageError(`--listen must be HOST:PORT, not "${text}".`, `Example: --listen ${example}`)
  return address
}

/** Reads the base URL of a gateway. Accepts a trailing slash or /v1, because users copy the URL of their clients. */
export function gatewayFlag(args: Args, flag: string): string {
  return httpUrl(
    flag,
    (args.text(flag) ?? 'http://127.0.0.1:8080').replace(/\/+$/, '').replace(/\/v1$/, ''),
    'http://127.0.0.1:8080',
  )
}

/**
 * Parses an http or https URL. Throws a UsageError for other schemes, and for a URL with a password, which the message
 * does not repeat.
 */
export function httpUrl(flag: string, text: string, example: string): string {
  const { username, password, host } = URL.parse(text) ?? { username: '', password: '', host: '' }
  if (username !== '' || password !== '')
    throw new UsageError(
      `--${flag}: the URL of ${host} contains a user or password.`,
      `Remove them, as in --${flag} ${example}. Keys have their own flags and variables.`,
    )
  if (!URL.canParse(text) || !/^https?:\/\//.test(text))
    throw new UsageError(`--${flag} must be an http or https URL, not "${text}".`, `Example: --${flag} ${example}`)
  return text
}

/* Files named on the command line: read at the start, or written at the end of a long run. */

const TRACE_FORMATS = 'docs/replay.md describes the formats.'

/** Reads `--trace FILE [--limit N]`. Throws a UsageError that names the file and the invalid line. */
export function traceIn(file: string, args: Args): Trace {
  const limit = args.whole('limit', { min: 1, max: 1e9 })
  const bytes = readInput(file, `Give --trace a file in Mooncake’s schema or another known format; ${TRACE_FORMATS}`)
  const text = bytes.toString('utf8')
  try {
    const options = limit === null ? {} : { limit }
    const trace = importTrace(basename(file), text, options) ?? readTrace(basename(file), text, options)
    if (trace.requests.length === 0)
      throw new UsageError(`${file} contains no request.`, `One JSON object a line; ${TRACE_FORMATS}`)
    return { ...trace, sha256: createHash('sha256').update(bytes).digest('hex') }
  } catch (error) {
    throw error instanceof TraceError ? new UsageError(`${file}: ${error.message}.`, TRACE_FORMATS) : error
  }
}

/**
 * Returns a function that writes to the file named by a flag, or does nothing if the flag is absent. Checks that the
 * file can be written before the work begins. `secret`: only the owner may read the file.
 */
export function outputOf(args: Args, flag: string, { secret = false } = {}): (text: () => string | Uint8Array) => void {
  const file = args.text(flag)
  if (file === null) return () => {}
  const known = statSync(file, { throwIfNoEntry: false })
  if (known?.isDirectory() === true)
    throw new UsageError(
      `--${flag}: ${file} is a folder, not a file.`,
      `Name a file in it: --${flag} ${file.replace(/\/+$/, '')}/out.${flag}`,
    )
  const folder = dirname(file)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new UsageError(`--${flag}: there is no folder ${folder}.`, `Make it first: mkdir -p ${folder}`)
  // Opening a pipe for this check would end its input.
  if (known === undefined || known.isFile()) orSay(flag, file, 2, () => closeSync(openSync(file, 'a')))
  if (known === undefined) unlinkSync(file)
  return (text) => {
    const written = text()
    orSay(flag, file, 1, () => {
      if (secret && known?.isFile() === true) chmodSync(file, OWNER_ONLY)
      writeFileSync(file, written, secret ? { mode: OWNER_ONLY } : {})
    })
  }
}

function orSay(flag: string, file: string, exitCode: 1 | 2, write: () => void): void {
  try {
    write()
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `--${flag}: ${file} cannot be written (${code}).`,
      'Check permissions and free space, or name another file.',
      exitCode,
    )
  }
}

const OWNER_ONLY = 0o600

/** Formats a value for a `--json` file. */
export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

/**
 * Parses flags. Throws a UsageError for an unknown flag, a missing value, a surplus argument, or flags that exclude
 * each other.
 */
export function readArgs(command: Command, argv: readonly string[]): Args & { readonly help: boolean } {
  const { values, positionals } = parse(command, argv)
  if (command.positionals === null && positionals[0] !== undefined) {
    const hint = 'config' in command.flags ? `; did you mean --config ${positionals[0]}?` : '.'
    throw new UsageError(`firstlight ${command.name} takes no argument "${positionals[0]}"${hint}`, helpLine(command))
  }
  const help = values['help'] === true
  if (!help) refuseIdle(command, values)
  const number: Args['number'] = (flag, bounds) => asNumber(command, flag, { text: asText(values[flag]), ...bounds })
  return {
    help,
    positionals,
    text: (flag) => asText(values[flag]),
    texts: (flag) => [values[flag] ?? []].flat().map(String),
    on: (flag) => values[flag] === true,
    number,
    whole: (flag, bounds) => wholeOf(command, flag, number(flag, bounds)),
  }
}

/** Rejects a flag that another flag makes ineffective. Otherwise the user would attribute the result to it. */
function refuseIdle(command: Command, values: Values): void {
  for (const [flag, idle] of Object.entries(command.instead ?? {})) {
    const given = values[flag] === undefined ? undefined : idle.find((other) => values[other] !== undefined)
    if (given !== undefined)
      throw new UsageError(
        `firstlight ${command.name}: --${given} has no effect with --${flag}.`,
        'Remove one of the two.',
      )
  }
}

function parse(command: Command, argv: readonly string[]): { values: Values; positionals: string[] } {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string; multiple?: boolean }> = {
    help: { type: 'boolean', short: 'h' },
  }
  for (const [name, { type, short, multiple }] of Object.entries(command.flags)) {
    options[name] = { type, ...(short === undefined ? {} : { short }), ...(multiple === undefined ? {} : { multiple }) }
  }
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw usageOf(command, error, Object.keys(options))
  }
}

function usageOf(command: Command, error: unknown, known: readonly string[]): UsageError {
  const message = error instanceof Error ? error.message : String(error)
  const without = /^Option '(?:-\w, )?--([a-z-]+).* argument (missing|is ambiguous)/.exec(message)
  if (without !== null) return missingValue(command, without[1]!, without[2] === 'is ambiguous')
  const unknown = /^Unknown option '(-{1,2}[^'=]*)/.exec(message)?.[1]
  if (unknown === undefined)
    return new UsageError(`firstlight ${command.name}: ${message.split('\n')[0]}`, helpLine(command))
  const hint = didYouMean(unknown.replace(/^-+/, ''), known).replace(/"(.*)"/, '--$1')
  return new UsageError(`firstlight ${command.name} has no flag ${unknown}${hint}`, helpLine(command))
}

function missingValue(command: Command, flag: string, dashed: boolean): UsageError {
  const value = command.flags[flag]?.value ?? 'VALUE'
  const message = `firstlight ${command.name}: --${flag} needs a value, as in --${flag} ${value}.`
  return new UsageError(message, dashed ? `Write a value that starts with a dash as --${flag}=-…` : helpLine(command))
}

const helpLine = (command: Command) => `Run firstlight ${command.name} --help for the flags.`

function asText(value: Values[string]): string | null {
  const last = Array.isArray(value) ? value.at(-1) : value
  return typeof last === 'string' ? last : null
}

interface FlagValue {
  readonly text: string | null
  readonly min: number
  readonly max: number
}

function asNumber(command: Command, flag: string, { text, min, max }: FlagValue): number | null {
  if (text === null) return null
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value) && value >= min && value <= max) return value
  throw new UsageError(`--${flag} must be a number from ${min} to ${max}, got "${text}".`, helpLine(command))
}

function wholeOf(command: Command, flag: string, value: number | null): number | null {
  if (value === null || Number.isInteger(value)) return value
  throw new UsageError(`--${flag} must be a whole number, got "${value}".`, helpLine(command))
}
