/** A command line against a command's flags. */
import { parseArgs } from 'node:util'
import { didYouMean } from '../../../config/suggest.ts'
import { UsageError, type Args, type Command } from './command.ts'

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>

/** Throws a UsageError for a flag the command does not have, a missing value, or an argument too many. */
export function readArgs(command: Command, argv: readonly string[]): Args & { readonly help: boolean } {
  const { values, positionals } = parse(command, argv)
  if (command.positionals === null && positionals[0] !== undefined) {
    throw new UsageError(`firstlight ${command.name} takes no argument "${positionals[0]}".`, helpLine(command))
  }
  return {
    help: values['help'] === true,
    positionals,
    text: (flag) => asText(values[flag]),
    texts: (flag) => [values[flag] ?? []].flat().map(String),
    on: (flag) => values[flag] === true,
    number: (flag, bounds) => asNumber(flag, asText(values[flag]), bounds),
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
  const unknown = /^Unknown option '(-{1,2}[^'=]*)/.exec(message)?.[1]
  if (unknown === undefined) return new UsageError(`firstlight ${command.name}: ${message.split('\n')[0]}`, helpLine(command))
  const hint = didYouMean(unknown.replace(/^-+/, ''), known).replace(/"(.*)"/, '--$1')
  return new UsageError(`firstlight ${command.name} has no flag ${unknown}${hint}`, helpLine(command))
}

const helpLine = (command: Command) => `firstlight ${command.name} --help lists the flags, with an example.`

function asText(value: Values[string]): string | null {
  const last = Array.isArray(value) ? value.at(-1) : value
  return typeof last === 'string' ? last : null
}

function asNumber(flag: string, text: string | null, { min, max }: { readonly min: number; readonly max: number }): number | null {
  if (text === null) return null
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value) && value >= min && value <= max) return value
  throw new UsageError(`--${flag} must be a number from ${min} to ${max}, got "${text}".`, `Example: --${flag} ${min}`)
}
