/** Fields of a body that no client may send, and caps on what a request asks for. */
import type { LimitsConfig } from '../../config.ts'
import { isJsonObject } from '../../core/json.ts'
import { Utf8Text } from '../../core/tokens/utf8-text.ts'
import { Failure } from '../../failure.ts'
import { allBounds } from '../../protocols/protocols.ts'
import type { JsonBody } from './body.ts'
import { foreignMedia } from './media-hosts.ts'

export type Json = Readonly<Record<string, unknown>>

type RequestLimits = Pick<LimitsConfig, 'maxN' | 'maxOutputTokens' | 'maxJsonDepth' | 'mediaHosts' | 'deniedFields'>

/** Engines that are gateways themselves (LiteLLM) merge this object into the body. */
export const EXTRA_BODY = 'extra_body'

/** Token-in requests have their sampling fields in this object. */
const SAMPLING = 'sampling_params'

const CHOICES = ['n', 'best_of'] as const

/** Rejects requests beyond the configured limits. Fails with `bad_value`, which names field, value and limit. */
export function enforceLimits({ bytes, json }: JsonBody, limits: RequestLimits): void {
  enforceFields(json, '', limits)
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra)) enforceFields(extra, `${EXTRA_BODY}.`, limits)
  const params = json[SAMPLING]
  if (isJsonObject(params)) enforceSampling(params, limits)
  const { maxJsonDepth, mediaHosts } = limits
  // A level takes at least two bytes.
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
      `${foreign.field} names ${foreign.description}, which is not allowed here (limits.media_hosts). Send the media ` +
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
    for (const name of allBounds) cap(fields[name], prefix + name, maxOutputTokens, 'limits.max_output_tokens')
}

/** Engines read transfer parameters from `extra_args`; those of another client's request must not get there. */
function enforceSampling(params: Json, limits: RequestLimits): void {
  if (Object.hasOwn(params, 'extra_args'))
    throw new Failure('bad_value', `${SAMPLING}.extra_args may not be sent by clients. Leave it out.`, {
      param: `${SAMPLING}.extra_args`,
    })
  enforceFields(params, `${SAMPLING}.`, limits)
}

/** A text counts as its number, because pydantic reads `"100_000"` as one. The engine rejects other texts. */
function cap(value: unknown, param: string, max: number, limit: string): void {
  if (value === undefined) return
  const amount = typeof value === 'string' ? Number(value.slice(0, 400).replaceAll('_', '')) : value
  if (typeof amount !== 'number' || !(amount > max)) return
  throw new Failure('bad_value', `${param} is ${amount}: at most ${max} is allowed here (${limit}).`, { param })
}

/**
 * Whether the value is nested deeper than `maxDepth` levels. Members that a later one of the same name replaces are not
 * counted; parsers of engines have limits of their own.
 */
function isDeeper(value: object, maxDepth: number): boolean {
  if (maxDepth === 0) return true
  if (Array.isArray(value)) {
    for (const item of value as unknown[])
      if (typeof item === 'object' && item !== null && isNested(item) && isDeeper(item, maxDepth - 1)) return true
    return false
  }
  for (const name in value) {
    const member = (value as Json)[name]
    if (typeof member === 'object' && member !== null && isNested(member) && isDeeper(member, maxDepth - 1)) return true
  }
  return false
}

/** A long text is an object here, but not in the document. */
const isNested = (value: object): boolean => !(value instanceof Utf8Text)
