/** The leaves of the document: what an address, a duration, a secret or a name may look like. */
// The functional form of zod: on Workers the other one would cost 20 kB gzipped.
import * as z from 'zod/mini'
import { profile, profileNames } from '../core/latency/profiles.ts'
import { didYouMean } from './problem.ts'

/** The value of a key that is not there. */
export { _default as otherwise } from 'zod/mini'

/** An object that knows all its keys: an unknown one is a mistake, and named with the key probably meant. */
export function strict<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? // One line a key: the reader of issues splits them again.
          issue.keys
            .map((key) => `is not a known key${didYouMean(key, known) || `; known here: ${known.join(', ')}`}`)
            .join('\n')
        : undefined,
  })
}

/** One word out of a few. */
export function oneOf<const Choices extends readonly [string, ...string[]]>(words: Choices) {
  return z.enum(words, {
    error: (issue) =>
      `must be one of ${words.join(', ')}${typeof issue.input === 'string' ? didYouMean(issue.input, words) : ''}`,
  })
}

/** A schema with its meaning, for the generated documentation and for editors. */
export function describe<Schema extends z.ZodMiniType>(description: string, schema: Schema): Schema {
  return schema.check(z.describe(description))
}

export const int = (min: number, max: number) => z.int().check(z.gte(min), z.lte(max))
export const number = (min: number, max: number) => z.number().check(z.gte(min), z.lte(max))
/** A text that is there. */
export const words = (max: number) => z.string().check(z.minLength(1), z.maxLength(max))

const hourMs = 3_600_000
/** A duration in milliseconds, a day at most: more is a slip of the unit. */
export const milliseconds = (min = 1) => int(min, 24 * hourMs)

/** The same rule for the wrong type, the wrong characters and nothing at all. */
const asRule = (rule: string) => (issue: { readonly input?: unknown }) =>
  issue.input === undefined ? `is required: ${rule}` : rule
const text = (pattern: RegExp, rule: string) =>
  z.string({ error: asRule(rule) }).check(z.regex(pattern, { error: rule }))

/** Ids stand in headers, paths, metrics and object names. */
export const id = text(
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/,
  'must be 1 to 63 letters, digits, ".", "_" or "-", starting with a letter or digit',
)

/** A model as engines and clients name it. */
export const modelName = text(/^[^\s\p{Cc}]{1,255}$/u, 'must be a model name: 1 to 255 characters without spaces')

export const headerName = text(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'must be an HTTP header name')

export const label = z.string().check(z.maxLength(255))

/** A name the core has a speed for. */
export const hardware = z.string().check(
  z.refine((name) => profile(name) !== null, {
    error: `must be a hardware profile, such as ${profileNames.join(', ')}, or a100x4-70b`,
  }),
)

/** What may be sent in a header: blanks at its ends would be lost on the way. */
export const HEADER_TEXT = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
/** What may be sent behind `Bearer`. */
export const BEARER_TEXT = /^[\x21-\x7e]+$/

/** Why this is no text of the pattern, as the end of a sentence. */
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
  'Environment variable (Node), or secret or variable of the Worker, that holds the value.',
  text(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable'),
)
const sha256 = describe(
  'SHA-256 of the value, as `firstlight key` prints it: the document then holds nothing that opens a door.',
  text(/^[0-9a-f]{64}$/, 'must be 64 digits of 0-9a-f'),
)

/** A secret is written out, or (better) named: `{ env: NAME }`. */
const secretOf = (pattern: RegExp) => z.union([written(pattern), strict({ env })])

/** One that is shown as a bearer token. */
export const secret = secretOf(BEARER_TEXT)
/** One that is shown to us and to nobody else, so that its hash will do. */
export const shownSecret = z.union([
  written(BEARER_TEXT),
  strict({ env: z.optional(env), sha256: z.optional(sha256) }).check(
    z.refine((one) => !one.env !== !one.sha256, { error: 'must have either env or sha256' }),
  ),
])
/** One that is the value of a header, or of no header at all. */
export const secretText = secretOf(HEADER_TEXT)

export type Secret = z.output<typeof secret>

const urlRule = 'must be a base URL like http://10.0.0.1:8000'

/** Base URL of a server: http or https, a path at most. The gateway appends the API's paths itself. */
export const baseUrl = z.string({ error: asRule(urlRule) }).check((context) => {
  const fault = urlFault(context.value)
  if (fault !== null) context.issues.push({ code: 'custom', message: fault, input: context.value })
})

function urlFault(value: string): string | null {
  // The parser of URLs forgives blanks, backslashes and missing slashes; who puts a path behind the text would not.
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

/** Where pages come from. */
export const origins = z
  .array(z.string({ error: asRule(originRule) }).check(z.refine(isOrigin, { error: originRule })))
  .check(
    z.minLength(1),
    z.refine((all) => all.length === 1 || !all.includes('*'), { error: originRule }),
  )

/** Of extensions and apps the parser of URLs knows no origin. */
function isOrigin(value: string): boolean {
  if (/^https?:/.test(value)) return URL.canParse(value) && new URL(value).origin === value && !value.includes('*')
  return /^(\*|[a-z][a-z\d+.-]*:\/\/[^\s/?#@*,]+)$/.test(value)
}

export interface Address {
  readonly host: string
  readonly port: number
}

const addressRule = 'must be HOST:PORT like 127.0.0.1:8080, or [::1]:8080'

/** Where to listen. Port 0: any free one. */
export const address = z
  .string({ error: addressRule })
  .check(z.refine((value) => parseAddress(value) !== null, { error: addressRule }))

/** `:8080` listens on every interface, as elsewhere. null: not an address. */
export function parseAddress(value: string): Address | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]*)):(\d{1,5})$/.exec(value)
  if (match === null) return null
  const port = Number(match[3])
  if (port > 65_535) return null
  return { host: match[1] ?? (match[2] === '' || match[2] === undefined ? '0.0.0.0' : match[2]), port }
}

/** The other way round. */
export const addressText = ({ host, port }: Address): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

const MOST_THREADS = 128
const threadsRule = `must be auto, or a number from 1 to ${MOST_THREADS}`
export const threads = z.union([int(1, MOST_THREADS), oneOf(['auto'])], { error: threadsRule })

/** As on a command line. null: it is neither `auto` nor a number that will do. */
export function parseThreads(value: string): number | 'auto' | null {
  return threads.safeParse(value === 'auto' || value.trim() === '' ? value : Number(value)).data ?? null
}

/** Can only this machine reach it? */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}
