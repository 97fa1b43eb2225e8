/** A command line against a command's flags. */
import { parseArgs } from 'node:util'
import { didYouMean } from '../../../config/suggest.ts'
import { UsageError, type Args, type Command } from './command.ts'

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

/** Throws a UsageError for a flag the command does not have, a missing value, an argument too many, or flags that exclude each other. */
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

/** A flag that another one makes meaningless is said, not ignored: its user would believe figures it had no part in. */
function refuseIdle(command: Command, values: Values): void {
  for (const [flag, idle] of Object.entries(command.instead ?? {})) {
    const given = values[flag] === undefined ? undefined : idle.find((other) => values[other] !== undefined)
    if (given !== undefined) throw new UsageError(`firstlight ${command.name}: --${given} means nothing beside --${flag}.`, 'Leave one of them out.')
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
  if (unknown === undefined) return new UsageError(`firstlight ${command.name}: ${message.split('\n')[0]}`, helpLine(command))
  const hint = didYouMean(unknown.replace(/^-+/, ''), known).replace(/"(.*)"/, '--$1')
  return new UsageError(`firstlight ${command.name} has no flag ${unknown}${hint}`, helpLine(command))
}

function missingValue(command: Command, flag: string, dashed: boolean): UsageError {
  const value = command.flags[flag]?.value ?? 'VALUE'
  const message = `firstlight ${command.name}: --${flag} wants a value, as in --${flag} ${value}.`
  return new UsageError(message, dashed ? `One that begins with a dash is written --${flag}=-…` : helpLine(command))
}

const helpLine = (command: Command) => `firstlight ${command.name} --help lists the flags, with an example.`

function asText(value: Values[string]): string | null {
  const last = Array.isArray(value) ? value.at(-1) : value
  return typeof last === 'string' ? last : null
}

interface Given {
  readonly text: string | null
  readonly min: number
  readonly max: number
}

function asNumber(command: Command, flag: string, { text, min, max }: Given): number | null {
  if (text === null) return null
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value) && value >= min && value <= max) return value
  throw new UsageError(`--${flag} must be a number from ${min} to ${max}, got "${text}".`, helpLine(command))
}

function wholeOf(command: Command, flag: string, value: number | null): number | null {
  if (value === null || Number.isInteger(value)) return value
  throw new UsageError(`--${flag} must be a whole number, got "${value}".`, helpLine(command))
}
