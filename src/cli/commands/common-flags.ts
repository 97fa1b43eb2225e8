/** Flags that several commands share. */
import { parseAddress } from '../../config/address.ts'
import type { Args } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'

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
