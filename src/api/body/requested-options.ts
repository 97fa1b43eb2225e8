import * as z from 'zod/mini'
import { policyKinds } from '../../core/routing/policies/policies.ts'
import type { JsonObject } from '../../core/json.ts'
import { Failure } from '../../failure.ts'
import { agentHints, HINTS, hintedOptions } from '../../protocols/agent-hints.ts'
import type { Caller } from '../auth/caller.ts'
import { badValue } from './bad-value.ts'
import type { Json } from './request-limits.ts'

/** Classes under overload, the first one refused last. */
export const REQUEST_CLASSES = ['critical', 'standard', 'sheddable'] as const

export const MAX_SESSION_CHARS = 512

/** Header with the options as JSON; the body's `firstlight` object takes precedence. */
export const OPTIONS_HEADER = 'x-firstlight-options'

/**
 * Routing overrides in the body's `firstlight` object or, as JSON, in the header `OPTIONS_HEADER`. Numbers have
 * the bounds of the policy options.
 */
const options = z.strictObject({
  policy: z.optional(z.enum(policyKinds.map(({ name }) => name))),
  overlap_weight: z.optional(z.number().check(z.gte(0), z.lte(100))),
  temperature: z.optional(z.number().check(z.gte(0), z.lte(10))),
  session: z.optional(z.string().check(z.minLength(1), z.maxLength(MAX_SESSION_CHARS))),
  priority: z.optional(z.int().check(z.gte(-1_000_000), z.lte(1_000_000))),
  expected_output_tokens: z.optional(z.int().check(z.gte(0), z.lte(10_000_000))),
  class: z.optional(z.enum(REQUEST_CLASSES)),
  target: z.optional(z.string().check(z.minLength(1), z.maxLength(255))),
  ttft_deadline_ms: z.optional(z.number().check(z.gte(0), z.lte(86_400_000))),
})

/** Dynamo's hints that are options here, in `nvext.agent_hints` of the body. Others are the engine's. */
const hints = z.object({
  priority: z.nullish(z.int().check(z.gte(-1_000_000), z.lte(1_000_000))),
  osl: z.nullish(z.int().check(z.gte(0), z.lte(10_000_000))),
})

/** Names of Dynamo's `router_config_override` for two of them. */
const ALIASES = { overlap_score_weight: 'overlap_weight', router_temperature: 'temperature' } as const

export type RequestOptions = z.infer<typeof options>

const NO_OPTIONS: RequestOptions = {}

/**
 * Merges the overrides: those of `firstlight` in the body take precedence over the header, and both over Dynamo's
 * hints. Fails with `bad_value`.
 */
function readOptions(body: Readonly<Record<string, unknown>> | null, header: string | null): RequestOptions {
  const own = body !== null && Object.hasOwn(body, 'firstlight') ? body['firstlight'] : undefined
  const hinted = body === null ? undefined : agentHints(body)
  if (own === undefined && header === null && hinted === undefined) return NO_OPTIONS
  return {
    ...(hinted === undefined ? {} : checkHints(hinted)),
    ...(header === null ? {} : checkOptions(parseHeader(header), OPTIONS_HEADER)),
    ...(own === undefined ? {} : checkOptions(own, 'firstlight')),
  }
}

function parseHeader(header: string): unknown {
  try {
    return JSON.parse(header)
  } catch {
    throw new Failure(
      'bad_value',
      `The header ${OPTIONS_HEADER} must be a JSON object, e.g. {"policy":"least_loaded"}.`,
      { param: OPTIONS_HEADER },
    )
  }
}

function checkHints(value: JsonObject): RequestOptions {
  const parsed = hints.safeParse(value)
  if (parsed.success) return hintedOptions(parsed.data)
  throw invalid(parsed.error, value, HINTS)
}

function checkOptions(value: unknown, base: string): RequestOptions {
  const canonical = withoutAliases(value, base)
  const parsed = options.safeParse(canonical)
  if (parsed.success) return parsed.data
  throw invalid(parsed.error, canonical, base)
}

/** Renames Dynamo's names to ours. Fails if a value is given under both. */
function withoutAliases(value: unknown, base: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  let renamed: Record<string, unknown> | null = null
  for (const [alias, name] of Object.entries(ALIASES)) {
    if (!Object.hasOwn(value, alias)) continue
    if (Object.hasOwn(value, name))
      throw new Failure('bad_value', `${base}.${alias} and ${base}.${name} are the same option. Send one of them.`, {
        param: `${base}.${alias}`,
      })
    renamed ??= { ...value }
    renamed[name] = renamed[alias]
    delete renamed[alias]
  }
  return renamed ?? value
}

function invalid(error: z.core.$ZodError, root: unknown, base: string): Failure {
  const issue = error.issues[0]!
  // A long name is shortened in the error.
  const unknownKey = issue.code === 'unrecognized_keys' ? issue.keys[0]!.slice(0, 60) : undefined
  const steps = unknownKey === undefined ? issue.path.map(String) : [...issue.path.map(String), unknownKey]
  const path = (base === '' ? steps : [base, ...steps]).join('.')
  if (unknownKey !== undefined) {
    return new Failure('bad_value', `${path} is not an option. Options: ${Object.keys(options.shape).join(', ')}.`, {
      param: path,
    })
  }
  return badValue(path, at(root, issue.path), rule(issue))
}

function rule(issue: z.core.$ZodIssue): string {
  if (issue.code === 'too_big') return `it must be at most ${issue.maximum}`
  if (issue.code === 'too_small') return `it must be at least ${issue.minimum}`
  if (issue.code === 'invalid_value') return `it must be one of ${issue.values.join(', ')}`
  if (issue.code !== 'invalid_type') return 'it is not allowed'
  return `it must be ${issue.expected === 'int' ? 'a whole number' : `of type ${issue.expected}`}`
}

function at(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root
  for (const step of path) value = (value as Record<PropertyKey, unknown> | null)?.[step]
  return value
}

/** Where a request has its options. */
interface OptionSource {
  readonly json: Json
  readonly isForm: boolean
  /** `x-firstlight-options`; null: absent. */
  readonly header: string | null
}

/** Reads the options of a request. Fails with a Failure if they are invalid, or if the caller may not set them. */
export type ReadOptions = (source: OptionSource, caller: Caller) => RequestOptions

/** The options as requested: without keys, clients may set everything. */
export const requestedOptions: ReadOptions = ({ json, isForm, header }) => readOptions(isForm ? null : json, header)
