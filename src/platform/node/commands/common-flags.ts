/** Flags that several commands have, under one rule and one message each. */
import { parseAddress } from '../../../config/values.ts'
import { UsageError, type Args } from './command.ts'

type Address = NonNullable<ReturnType<typeof parseAddress>>

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** `--log-level`; null: not given. */
export const levelFlag = (args: Args): (typeof LEVELS)[number] | null => oneOfFlag(args, 'log-level', LEVELS, 'debug')

/** A flag that takes one of these words; null: not given. */
export function oneOfFlag<Word extends string>(args: Args, flag: string, words: readonly Word[], example: Word): Word | null {
  const text = args.text(flag)
  const known = words.find((word) => word === text)
  if (text !== null && known === undefined) throw new UsageError(`--${flag} must be one of ${words.join(', ')}, got "${text}".`, `Example: --${flag} ${example}`)
  return known ?? null
}

/** `--listen HOST:PORT`; null: not given. */
export function listenFlag(args: Args, example = '127.0.0.1:9000'): Address | null {
  const text = args.text('listen')
  if (text === null) return null
  const address = parseAddress(text)
  if (address === null) throw new UsageError(`--listen must be HOST:PORT, got "${text}".`, `Example: --listen ${example}`)
  return address
}

/** The base URL of a gateway: people copy the one that clients use, with a slash or /v1 at its end. */
export function gatewayFlag(args: Args, flag: string): string {
  return httpUrl(flag, (args.text(flag) ?? 'http://127.0.0.1:8080').replace(/\/+$/, '').replace(/\/v1$/, ''), 'http://127.0.0.1:8080')
}

/** Throws a UsageError for what is no http or https URL, or has a password in it, which then is not repeated. */
export function httpUrl(flag: string, text: string, example: string): string {
  const { username, password, host } = URL.parse(text) ?? { username: '', password: '', host: '' }
  if (username !== '' || password !== '') throw new UsageError(`--${flag}: the address of ${host} has a user or password in it.`, `Leave them out, as in --${flag} ${example}; keys have flags and variables of their own.`)
  if (!URL.canParse(text) || !/^https?:\/\//.test(text)) throw new UsageError(`--${flag} takes an http address, got "${text}".`, `Example: --${flag} ${example}`)
  return text
}
