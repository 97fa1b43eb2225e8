/** Building blocks of the configuration schema: objects, numbers, durations, names, URLs, addresses and secrets. */
// zod/mini: the method-chaining form of zod adds 20 kB (gzip) to the Worker.
import * as z from 'zod/mini'
import { profile, profileNames } from '../core/latency/profiles.ts'
import { didYouMean } from './problem.ts'

/** Schema with a default for an absent key. */
export { _default as withDefault } from 'zod/mini'

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name
/** Object of the document with keys in camelCase; keys that may be absent are null instead. */
type CamelKeys<Written> = {
  readonly [Key in keyof Written as CamelCase<Key & string>]-?: undefined extends Written[Key]
    ? Exclude<Written[Key], undefined> | null
    : Written[Key]
}

/**
 * Schema of an object with these snake_case keys. Its output has camelCase keys, and null for every absent key.
 * Unknown keys are rejected, with a suggestion.
 */
export function strict<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const known = Object.keys(shape)
  const names = known.map((key) => [key, camel(key)] as const)
  const written = z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? // One line per key: `findings` splits them again.
          issue.keys
            .map((key) => `is not a known key${didYouMean(key, known) || `; known here: ${known.join(', ')}`}`)
            .join('\n')
        : undefined,
  })
  type Written = z.output<typeof written>
  const toCamelKeys = (value: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(names.map(([key, name]) => [name, value[key] ?? null])) as CamelKeys<Written>
  return z.pipe(
    written,
    z.transform((value: Written) => toCamelKeys(value)) as z.ZodMiniTransform<CamelKeys<Written>, Written>,
  )
}

/** Name in the document: `block_tokens` for `blockTokens`. */
export function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Name in the code: `blockTokens` for `block_tokens`. */
export function camel(name: string): string {
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

/** Schema of an enumeration; its error suggests the nearest word. */
export function oneOf<const Choices extends readonly [string, ...string[]]>(words: Choices) {
  return z.enum(words, {
    error: (issue) =>
      `must be one of ${words.join(', ')}${typeof issue.input === 'string' ? didYouMean(issue.input, words) : ''}`,
  })
}

/** Schema with a description, for the generated documentation and for editors. */
export function describe<Schema extends z.ZodMiniType>(description: string, schema: Schema): Schema {
  return schema.check(z.describe(description))
}

export const int = (min: number, max: number) => z.int().check(z.gte(min), z.lte(max))
export const number = (min: number, max: number) => z.number().check(z.gte(min), z.lte(max))
/** Non-empty string. */
export const text = (max: number) => z.string().check(z.minLength(1), z.maxLength(max))

const hourMs = 3_600_000
/** Duration in milliseconds, at most a day: a longer one is probably a wrong unit. */
export const milliseconds = (min = 1) => int(min, 24 * hourMs)

/** Error of a value with a wrong type or wrong characters, and of an absent value. */
const asRule = (rule: string) => (issue: { readonly input?: unknown }) =>
  issue.input === undefined ? `is required: ${rule}` : rule
export const textLike = (pattern: RegExp, rule: string) =>
  z.string({ error: asRule(rule) }).check(z.regex(pattern, { error: rule }))

/** Id, restricted because it appears in headers, paths, metrics and object names. */
export const id = textLike(
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/,
  'must be 1 to 63 letters, digits, ".", "_" or "-", starting with a letter or digit',
)

/** Model name of engines and clients. */
export const modelName = textLike(/^[^\s\p{Cc}]{1,255}$/u, 'must be a model name: 1 to 255 characters without spaces')

export const headerName = textLike(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'must be an HTTP header name')

/** Host of a URL, without a port; `*.` before a domain matches every host below it. */
const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2}))?$/
const dateRule = 'must be a date like "2027-01-31", or a time with a zone like "2027-01-31T18:00:00Z", in quotes'
/** Date or time in ISO 8601. */
export const dateText = z
  .string({ error: asRule(dateRule) })
  .check(z.refine((value) => DATE.test(value) && !Number.isNaN(Date.parse(value)), { error: dateRule }))
export const hostName = textLike(
  /^(?:\*\.)?[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?$|^\[[0-9a-f:.]{2,45}\]$/,
  'must be a host in lower case without a port, like images.example.com or *.example.com',
)

export const label = z.string().check(z.maxLength(255))

/** Hardware profile for which the core has a prior speed. */
export const hardware = z.string().check(
  z.refine((name) => profile(name) !== null, {
    error: `must be a hardware profile, such as ${profileNames.join(', ')}, or a100x4-70b`,
  }),
)

/** Header value without leading or trailing spaces, which HTTP would strip. */
export const HEADER_TEXT = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
/** Value that can be sent as a bearer token. */
export const BEARER_TEXT = /^[\x21-\x7e]+$/

/** Description of the pattern for the end of an error message. */
export const textRule = (pattern: RegExp): string =>
  `printable ASCII on one line without spaces${pattern === HEADER_TEXT ? ' at its ends' : ''}`

const written = (pattern: RegExp) =>
  z.string().check(
    z.minLength(1, { error: 'must not be empty' }),
    z.maxLength(8192),
    z.regex(pattern, { error: `must be ${textRule(pattern)}` }),
    z.refine((value) => !/^\$\{?[A-Za-z_]\w*\}?$/.test(value), {
      error: 'looks like a shell variable; write { env: NAME }',
    }),
  )

const env = describe(
  'Name of the environment variable (Node), or of the Worker’s secret or variable, that holds the value.',
  textLike(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable'),
)
const sha256 = describe(
  'SHA-256 of the value, as `firstlight key` prints it, so that the document contains no usable secret.',
  textLike(/^[0-9a-f]{64}$/, 'must be 64 digits of 0-9a-f'),
)

/** Secret of the document: the literal value, or the environment variable to read. */
export class SecretRef {
  readonly value: string | { readonly env: string }
  readonly pattern: RegExp

  constructor(value: string | { readonly env: string }, pattern: RegExp) {
    this.value = value
    this.pattern = pattern
  }
}

/** URL of a Valkey or Redis server, optionally with the number of a database. */
export function isServerUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : null
  return url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '' && /^(\/\d*)?$/.test(url.pathname)
}

/** Schema of a secret: a literal, or `{ env: NAME }`, which is recommended. */
const secretOf = (pattern: RegExp) =>
  z.pipe(
    z.union([written(pattern), strict({ env })]),
    z.transform((value) => new SecretRef(value, pattern)),
  )

/** Secret sent as a bearer token. */
export const secret = secretOf(BEARER_TEXT)
/** Secret that clients send and the gateway only verifies, so that a hash is enough. */
export const verifiedSecret = z.pipe(
  z.union([
    written(BEARER_TEXT),
    strict({ env: z.optional(env), sha256: z.optional(sha256) }).check(
      z.refine((one) => !one.env !== !one.sha256, { error: 'must have either env or sha256' }),
    ),
  ]),
  z.transform((value) => {
    if (typeof value === 'string') return new SecretRef(value, BEARER_TEXT)
    return value.env === null ? { sha256: value.sha256! } : new SecretRef({ env: value.env }, BEARER_TEXT)
  }),
)
/** Secret that is a header value, or that is never sent. */
export const secretText = secretOf(HEADER_TEXT)

const urlRule = 'must be a base URL like http://10.0.0.1:8000'

/** Base URL of a server: http or https, optionally with a path. Trailing slashes are removed. */
export const baseUrl = z.string({ error: asRule(urlRule) }).check(
  (context) => {
    const fault = urlFault(context.value)
    if (fault !== null) context.issues.push({ code: 'custom', message: fault, input: context.value })
  },
  z.overwrite((url) => url.replace(/\/+$/, '')),
)

function urlFault(value: string): string | null {
  // URL.parse accepts blanks, backslashes and missing slashes, but appending a path to such a text fails.
  if (!URL.canParse(value) || (/^https?:/i.test(value) && !/^https?:\/\/[^\s\\]+$/i.test(value))) return urlRule
  const url = new URL(value)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return `${urlRule}: only http and https`
  if (url.username !== '' || url.password !== '') return 'must not carry a user or password; use `key` or `headers`'
  if (url.search !== '' || url.hash !== '' || /[?#]/.test(value)) return 'must not have a query or fragment'
  if (/\/v1\/*$/.test(url.pathname)) return 'must be the base URL without /v1: the gateway adds the path'
  return null
}

const originRule =
  'must be "*" alone, or origins as browsers send them, like https://chat.example.com: in lower case, without a path'

/** Origins of web pages. */
export const origins = z
  .array(z.string({ error: asRule(originRule) }).check(z.refine(isOrigin, { error: originRule })))
  .check(
    z.minLength(1),
    z.refine((all) => all.length === 1 || !all.includes('*'), { error: originRule }),
  )

/** Checks an origin by hand where URL has none: browser extensions and apps. */
function isOrigin(value: string): boolean {
  if (/^https?:/.test(value)) return URL.canParse(value) && new URL(value).origin === value && !value.includes('*')
  return /^(\*|[a-z][a-z\d+.-]*:\/\/[^\s/?#@*,]+)$/.test(value)
}

export interface Address {
  readonly host: string
  readonly port: number
}

const addressRule = 'must be HOST:PORT like 127.0.0.1:8080, or [::1]:8080'

/** Address to listen on or to connect to. Port 0: any free port. */
export const address = z.pipe(
  z.string({ error: addressRule }).check(z.refine((value) => parseAddress(value) !== null, { error: addressRule })),
  z.transform((value) => parseAddress(value)!),
)

/** Parses HOST:PORT; `:8080` listens on every interface. null: not an address. */
export function parseAddress(value: string): Address | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]*)):(\d{1,5})$/.exec(value)
  if (match === null) return null
  const port = Number(match[3])
  if (port > 65_535) return null
  return { host: match[1] ?? (match[2] === '' || match[2] === undefined ? '0.0.0.0' : match[2]), port }
}

/** Formats an address as HOST:PORT. */
export const addressText = ({ host, port }: Address): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

const MOST_THREADS = 128
const threadsRule = `must be auto, or a number from 1 to ${MOST_THREADS}`
export const threads = z.union([int(1, MOST_THREADS), oneOf(['auto'])], { error: threadsRule })

const hedgeRule = 'must be off, auto, or a number of milliseconds from 1 to 600000'
export const hedgeMs = z.union([int(1, 600_000), z.enum(['off', 'auto'], { error: hedgeRule })])

/** Parses a thread count of the command line. null: neither `auto` nor a number in range. */
export function parseThreads(value: string): number | 'auto' | null {
  return threads.safeParse(value === 'auto' || value.trim() === '' ? value : Number(value)).data ?? null
}

/** Whether only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}
