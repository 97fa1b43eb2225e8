/** Schemas of secrets: the literal value, an environment variable, or a hash. */
import * as z from 'zod/mini'
import { describe, strict, textLike } from './fields.ts'

/** Header value without leading or trailing spaces, which HTTP would strip. */
const HEADER_TEXT = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

/** Value that can be sent as a bearer token. */
export const BEARER_TEXT = /^[\x21-\x7e]+$/

/** Description of the pattern for the end of an error message. */
export const textRule = (pattern: RegExp): string =>
  `printable ASCII on one line without spaces${pattern === HEADER_TEXT ? ' at its ends' : ''}`

const literalSecret = (pattern: RegExp) =>
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

/** Schema of a secret: a literal, or `{ env: NAME }`, which is recommended. */
const secretSchema = (pattern: RegExp) =>
  z.pipe(
    z.union([literalSecret(pattern), strict({ env })]),
    z.transform((value) => new SecretRef(value, pattern)),
  )

/** Secret sent as a bearer token. */
export const secret = secretSchema(BEARER_TEXT)

/** Secret that clients send and the gateway only verifies, so that a hash is enough. */
export const verifiedSecret = z.pipe(
  z.union([
    literalSecret(BEARER_TEXT),
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
export const secretText = secretSchema(HEADER_TEXT)
