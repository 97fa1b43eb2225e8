/** Flags that several commands have, under one rule and one message each. */
import { parseAddress } from '../../../config/values.ts'
import { UsageError, type Args } from './command.ts'

type Address = NonNullable<ReturnType<typeof parseAddress>>

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** `--log-level`; null: not given. */
export function levelFlag(args: Args): (typeof LEVELS)[number] | null {
  const level = args.text('log-level')
  const known = LEVELS.find((one) => one === level)
  if (level !== null && known === undefined) throw new UsageError(`--log-level must be one of ${LEVELS.join(', ')}, got "${level}".`, 'Example: --log-level debug')
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
