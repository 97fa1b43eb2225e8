/** Building blocks of the configuration schema: objects, numbers, durations, names, URLs, addresses and secrets. */
// zod/mini: the method-chaining form of zod adds 20 kB (gzip) to the Worker.
import * as z from 'zod/mini'
import { profile, profileNames } from '../core/latency/profiles.ts'
import { didYouMean } from './suggest.ts'

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
  const names = known.map((key) => [key, toCamelKey(key)] as const)
  const written = z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? // One line per key: `findings` (finding.ts) splits them again.
          issue.keys
            .map((key) => `is not a known key${didYouMean(key, known) || `; known keys: ${known.join(', ')}`}`)
            .join('\n')
        : undefined,
  })
  type SnakeKeys = z.output<typeof written>
  const toCamelKeys = (value: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(names.map(([key, name]) => [name, value[key] ?? null])) as CamelKeys<SnakeKeys>
  return z.pipe(
    written,
    z.transform((value: SnakeKeys) => toCamelKeys(value)) as z.ZodMiniTransform<CamelKeys<SnakeKeys>, SnakeKeys>,
  )
}

/** Name in the document: `block_tokens` for `blockTokens`. */
export function toSnakeKey(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Name in the code: `blockTokens` for `block_tokens`. */
export function toCamelKey(name: string): string {
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

/** Schema of an enumeration; its error suggests the nearest word. */
export function oneOf<const Choices extends readonly [string, ...string[]]>(words: Choices) {
  return z.enum(words, {
    error: (issue) =>
      `must be one of ${words.join(', ')}${typeof issue.input === 'string' ? didYouMean(issue.input, words) : ''}`,
  })
}

declare const FIRSTLIGHT_DOCS: boolean | undefined
/** For the generated documentation and for editors. Builds make no descriptions: each costs a second schema. */
const HAS_DESCRIPTIONS = typeof FIRSTLIGHT_DOCS === 'undefined' || FIRSTLIGHT_DOCS

/** Schema with a description, except in what is built. */
export function describe<Schema extends z.ZodMiniType>(description: string, schema: Schema): Schema {
  return HAS_DESCRIPTIONS ? schema.check(z.describe(description)) : schema
}

export const int = (min: number, max: number) => z.int().check(z.gte(min), z.lte(max))

export const number = (min: number, max: number) => z.number().check(z.gte(min), z.lte(max))

/** Non-empty string. */
export const text = (max: number) => z.string().check(z.minLength(1), z.maxLength(max))

const hourMs = 3_600_000

/** Duration in milliseconds, at most a day: a longer one is probably a wrong unit. */
export const milliseconds = (min = 1) => int(min, 24 * hourMs)

/** Error of a value with a wrong type or wrong characters, and of an absent value. */
export const asRule = (rule: string) => (issue: { readonly input?: unknown }) =>
  issue.input === undefined ? `is required: ${rule}` : rule

export const textLike = (pattern: RegExp, rule: string) =>
  z.string({ error: asRule(rule) }).check(z.regex(pattern, { error: rule }))

/** Id, restricted because it appears in headers, paths, metrics and object names. */
export const id = textLike(
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/,
  'must be 1 to 63 letters, digits, ".", "_" or "-", starting with a letter or digit',
)

/** Model name or alias of clients; an alias may be a pattern. */
export const clientModel = textLike(/^[^\s\p{Cc}]{1,255}$/u, 'must be a model name: 1 to 255 characters without spaces')

const MODEL_NAME = /^[^\s\p{Cc}*]{1,255}$/u

export const isModelName = (name: string): boolean => MODEL_NAME.test(name)

/** Model name of engines. */
export const modelName = textLike(
  MODEL_NAME,
  'must be a model name: 1 to 255 characters without spaces and *; only aliases may be patterns',
)

export const headerName = textLike(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'must be an HTTP header name')

const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2}))?$/

const dateRule = 'must be a date like "2027-01-31", or a time with a zone like "2027-01-31T18:00:00Z", in quotes'

/** Date or time in ISO 8601. */
export const dateText = z
  .string({ error: asRule(dateRule) })
  .check(z.refine((value) => DATE.test(value) && !Number.isNaN(Date.parse(value)), { error: dateRule }))

/** Host of a URL, without a port; `*.` before a domain matches every host below it. */
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
