/** Parses a command line by the flags of a command. */
import { parseArgs } from 'node:util'
import { didYouMean } from '../../config/suggest.ts'
import type { Args, Command } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

/**
 * Parses flags. Throws a UsageError for an unknown flag, a missing value, a surplus argument, or flags that exclude
 * each other.
 */
export function readArgs(command: Command, argv: readonly string[]): Args & { readonly help: boolean } {
  const { values, positionals } = parse(command, argv)
  if (command.positionals === null && positionals[0] !== undefined) {
    const hint = 'config' in command.flags ? `; did you mean --config ${positionals[0]}?` : '.'
    throw new UsageError(`firstlight ${command.name} accepts no argument "${positionals[0]}"${hint}`, helpLine(command))
  }
  const help = values['help'] === true
  if (!help) rejectIneffective(command, values)
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
function rejectIneffective(command: Command, values: Values): void {
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
    throw usageErrorOf(command, error, Object.keys(options))
  }
}

function usageErrorOf(command: Command, error: unknown, known: readonly string[]): UsageError {
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
