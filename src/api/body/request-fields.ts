import * as z from 'zod/mini'
import { policyKinds } from '../../core/routing/policies/policies.ts'
import type { JsonObject } from '../../core/json.ts'
import { Failure } from '../../failure.ts'
import { agentHints, HINTS, hintedOptions } from '../../protocols/agent-hints.ts'

/** Classes under overload, the first one refused last. */
export const REQUEST_CLASSES = ['critical', 'standard', 'sheddable'] as const

export const MAX_SESSION_CHARS = 512

/** Fields of a request that the gateway reads. The engine validates all others. */
const fields = z.object({
  model: z.nullish(z.string()),
  stream: z.nullish(z.boolean()),
  priority: z.nullish(z.int()),
  cache_salt: z.nullish(z.string()),
  previous_response_id: z.nullish(z.string()),
  stream_options: z.nullish(z.object({ include_usage: z.nullish(z.boolean()) })),
})

/**
 * Routing overrides in the body's `firstlight` object or, as JSON, in the `x-firstlight-options` header. Numbers have
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

export type RequestFields = z.infer<typeof fields>
export type RequestOptions = z.infer<typeof options>

/** Fails with `bad_value`, naming path and value. */
export function readFields(body: Readonly<Record<string, unknown>>): RequestFields {
  const parsed = fields.safeParse(body)
  if (parsed.success) return parsed.data
  throw badValue(parsed.error, body, '')
}

const NO_OPTIONS: RequestOptions = {}

/**
 * Merges the overrides: those of `firstlight` in the body take precedence over the header, and both over Dynamo's
 * hints. Fails with `bad_value`.
 */
export function readOptions(body: Readonly<Record<string, unknown>> | null, header: string | null): RequestOptions {
  const own = body !== null && Object.hasOwn(body, 'firstlight') ? body['firstlight'] : undefined
  const hinted = body === null ? undefined : agentHints(body)
  if (own === undefined && header === null && hinted === undefined) return NO_OPTIONS
  return {
    ...(hinted === undefined ? {} : checkHints(hinted)),
    ...(header === null ? {} : checkOptions(parseHeader(header), 'x-firstlight-options')),
    ...(own === undefined ? {} : checkOptions(own, 'firstlight')),
  }
}

function parseHeader(header: string): unknown {
  try {
    return JSON.parse(header)
  } catch {
    throw new Failure(
      'bad_value',
      'The header x-firstlight-options must be a JSON object, e.g. {"policy":"least_loaded"}.',
      { param: 'x-firstlight-options' },
    )
  }
}

function checkHints(value: JsonObject): RequestOptions {
  const parsed = hints.safeParse(value)
  if (parsed.success) return hintedOptions(parsed.data)
  throw badValue(parsed.error, value, HINTS)
}

function checkOptions(value: unknown, base: string): RequestOptions {
  const canonical = withoutAliases(value, base)
  const parsed = options.safeParse(canonical)
  if (parsed.success) return parsed.data
  throw badValue(parsed.error, canonical, base)
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

function badValue(error: z.core.$ZodError, root: unknown, base: string): Failure {
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
  return new Failure('bad_value', `${path} is ${abbreviated(at(root, issue.path))}: ${rule(issue)}.`, { param: path })
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

/** Shows enough of a value to recognize it, and too little to leak a prompt. */
function abbreviated(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  // Copies no more of a long text.
  const text = JSON.stringify(typeof value === 'string' ? value.slice(0, 60) : value) ?? 'missing'
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
