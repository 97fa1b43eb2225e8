/** Fields of a body that need permission or that no client may send, and caps on what a request asks for. */
import { isJsonObject } from '../core/json.ts'
import type { LimitsConfig } from '../config.ts'
import { Failure } from '../failure.ts'
import { Utf8Text } from '../core/tokens/utf8-text.ts'
import type { Caller } from './auth.ts'
import type { JsonBody } from './body.ts'
import { foreignMedia } from './media-hosts.ts'

type Json = Readonly<Record<string, unknown>>
type RequestLimits = Pick<LimitsConfig, 'maxN' | 'maxOutputTokens' | 'maxJsonDepth' | 'mediaHosts' | 'deniedFields'>

/** Engines that are gateways themselves (LiteLLM) read the members of this object as members of the body. */
const EXTRA_BODY = 'extra_body'
const CHOICES = ['n', 'best_of'] as const
const OUTPUT_TOKENS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/**
 * Refuses a `priority` that would reach an engine's queue from a key that may not choose it. The priority of the key
 * replaces the client's in JSON; a form cannot be edited. Fails with `forbidden`.
 */
export function authorizePriority(json: Json, caller: Caller, isForm: boolean): void {
  const mayChoose = caller.allowOverrides && caller.priority === null
  if (mayChoose) return
  const isReplaced = caller.priority !== null && !isForm
  if (!isReplaced && Object.hasOwn(json, 'priority')) throw priorityFailure('priority')
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra) && Object.hasOwn(extra, 'priority')) throw priorityFailure(`${EXTRA_BODY}.priority`)
}

const priorityFailure = (param: string): Failure =>
  new Failure(
    'forbidden',
    `This key may not set ${param}. Leave it out, or ask the operator for allow_overrides or a priority of this key.`,
    { param },
  )

/**
 * Refuses what the limits of the configuration do not allow. Fails with `bad_value`, which names field, value and
 * limit.
 */
export function enforceLimits({ bytes, json }: JsonBody, limits: RequestLimits): void {
  enforceFields(json, '', limits)
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra)) enforceFields(extra, `${EXTRA_BODY}.`, limits)
  const { maxJsonDepth, mediaHosts } = limits
  // A level takes two bytes at least.
  if (bytes.length > 2 * maxJsonDepth && isDeeper(json, maxJsonDepth))
    throw new Failure(
      'bad_value',
      `The body is nested more than ${maxJsonDepth} levels deep (limits.max_json_depth). Send a flatter document.`,
    )
  if (mediaHosts === null) return
  const foreign = foreignMedia(json, mediaHosts)
  if (foreign !== null)
    throw new Failure(
      'bad_value',
      `${foreign.field} names ${foreign.shown}, which is not allowed here (limits.media_hosts). Send the media ` +
        `as a data: URL${mediaHosts.length === 0 ? '' : ', or from an allowed host'}.`,
      { param: foreign.field },
    )
}

function enforceFields(fields: Json, prefix: string, limits: RequestLimits): void {
  for (const name of limits.deniedFields)
    if (Object.hasOwn(fields, name))
      throw new Failure(
        'bad_value',
        `${prefix}${name} may not be sent by clients (limits.denied_fields). Leave it out.`,
        { param: prefix + name },
      )
  const { maxN, maxOutputTokens } = limits
  for (const name of CHOICES) cap(fields[name], prefix + name, maxN, 'limits.max_n')
  if (maxOutputTokens !== null)
    for (const name of OUTPUT_TOKENS) cap(fields[name], prefix + name, maxOutputTokens, 'limits.max_output_tokens')
}

/** A text counts as the number it holds: pydantic reads `"100_000"` as one. What is no number is left to the engine. */
function cap(value: unknown, param: string, most: number, limit: string): void {
  if (value === undefined) return
  const amount = typeof value === 'string' ? Number(value.slice(0, 400).replaceAll('_', '')) : value
  if (typeof amount !== 'number' || !(amount > most)) return
  throw new Failure('bad_value', `${param} is ${amount}: at most ${most} is allowed here (${limit}).`, { param })
}

/**
 * Is the value nested deeper than `most` levels? The value is what an engine works on. Members that a later one of the
 * same
 * name replaces are not counted: parsers of engines have limits of their own for them.
 */
function isDeeper(value: object, most: number): boolean {
  if (most === 0) return true
  if (Array.isArray(value)) {
    for (const item of value as unknown[])
      if (typeof item === 'object' && item !== null && isNested(item) && isDeeper(item, most - 1)) return true
    return false
  }
  for (const name in value) {
    const member = (value as Json)[name]
    if (typeof member === 'object' && member !== null && isNested(member) && isDeeper(member, most - 1)) return true
  }
  return false
}

/** A long text is an object here, and none in the document. */
const isNested = (value: object): boolean => !(value instanceof Utf8Text)
