/**
 * Assigns a report to its request. Engines change the id they were sent: vLLM puts `chatcmpl-` or `cmpl-` in front,
 * since 0.14 a random `-xxxxxxxx` behind, and each prompt of a completion gets `-<index>`; an encode proxy sends each
 * item under `<parent>:<index>:<hex>`.
 */
export interface ReportId {
  /** Possible ids of the request, the most exact first. Never empty. */
  readonly candidates: readonly string[]
  /** Index of the encoder item. null: the request itself. */
  readonly child: number | null
}

/** Longest accepted id, in characters. */
export const MAX_ID_CHARS = 256

const CHILD = /^(.+):(\d{1,4}):[0-9a-f]{1,32}(?:-[0-9a-f]{8})?$/
const TAIL = /-[0-9a-f]{8}$/
const PROMPT_INDEX = /-\d{1,4}$/

/** Reads an id. A suffix is removed only after a known prefix, because without a prefix no engine has added one. */
export function readReportId(id: string): ReportId {
  const { rest, prefix } = withoutPrefix(id)
  if (prefix === '') return { candidates: [rest], child: null }
  const candidates = [rest]
  const bare = rest.replace(TAIL, '')
  if (bare !== rest && bare !== '') candidates.push(bare)
  const request = prefix === 'cmpl-' ? bare.replace(PROMPT_INDEX, '') : bare
  if (request !== bare && request !== '') candidates.push(request)
  return { candidates, child: null }
}

/**
 * Reads the id of an encoder item, for reports of encoders only. null: none. A client may use such ids for its
 * requests too.
 */
export function readItemId(id: string): ReportId | null {
  const child = CHILD.exec(withoutPrefix(id).rest)
  return child === null ? null : { candidates: [withoutPrefix(child[1]!).rest], child: Number(child[2]) }
}

/** Removes all prefixes: each engine adds its own. */
function withoutPrefix(id: string): { readonly rest: string; readonly prefix: '' | 'cmpl-' | 'chatcmpl-' } {
  let rest = id
  let prefix: '' | 'cmpl-' | 'chatcmpl-' = ''
  for (;;) {
    const next = rest.startsWith('chatcmpl-') ? 'chatcmpl-' : rest.startsWith('cmpl-') ? 'cmpl-' : ''
    if (next === '' || rest.length === next.length) return { rest, prefix }
    prefix = prefix === '' ? next : prefix
    rest = rest.slice(next.length)
  }
}

/**
 * The id whose shard keeps a request's reports, so that all ids of a request meet. It may remove more than
 * `readReportId`: ids that only look alike then share a shard, with no other effect.
 */
export function homeOf(id: string): string {
  const { rest, prefix } = withoutPrefix(id)
  let parent = rest
  for (let child = CHILD.exec(rest); child !== null; child = CHILD.exec(parent)) parent = withoutPrefix(child[1]!).rest
  const request = parent.replace(TAIL, '')
  return prefix === 'cmpl-' ? request.replace(PROMPT_INDEX, '') : request
}

export const ROLES = ['meta', 'encoder', 'pd'] as const
export type ReportRole = (typeof ROLES)[number]

/** Stages whose sum is `ttft_ms`, in chronological order. */
export const STAGES = [
  'enc_queue_time_ms',
  'enc_compute_time_ms',
  'emb_cache_transfer_time_ms',
  'prefill_queue_time_ms',
  'prefill_compute_time_ms',
] as const
export type ReportStage = (typeof STAGES)[number]

/** All fields of a partial report. Their order is part of the storage format: append only. */
export const FIELDS = [...STAGES, 'enc_ingress_wait_ms', 't_request_ingress_ns', 'encoder_items'] as const
export type ReportField = (typeof FIELDS)[number]

export interface ReportPartial {
  readonly role: ReportRole
  readonly id: string
  readonly values: readonly (readonly [field: ReportField, value: number])[]
  /** Chunk of a chunked prefill. null: the whole prefill. */
  readonly chunk: number | null
  /** Number of chunks. null: not reported. */
  readonly chunks: number | null
  /** This is the last chunk. */
  readonly last: boolean
  /** Encoder item of several with this id. null: not reported. */
  readonly item: number | null
  /** Items of one id run one after the other; those of several ids in parallel. null: not reported. */
  readonly serial: boolean | null
}

/** Longest stage, ms: a day. A longer one is an error of the unit. */
const MOST_MS = 86_400_000
const MOST_NS = 2 ** 63
export const MAX_CHUNKS = 65_536
export const MAX_ITEMS = 1_024

/** Validates a partial report. Returns the error for its sender otherwise. */
export function readPartial(value: unknown): ReportPartial | { readonly detail: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { detail: 'a report must be a JSON object' }
  const given = value as Readonly<Record<string, unknown>>
  const { role, request_id: id } = given
  if (role === undefined || role === null || role === '' || id === undefined || id === null || id === '')
    return { detail: 'role or request_id missing' }
  if (typeof role !== 'string' || !isRole(role))
    return { detail: `role must be one of ${ROLES.join(', ')}, got ${shown(role)}` }
  if (typeof id !== 'string' || id.length > MAX_ID_CHARS || !/^[\x21-\x7e]+$/.test(id)) {
    return {
      detail: `request_id must be a text of 1 to ${MAX_ID_CHARS} printable characters without spaces, got ${shown(id)}`,
    }
  }
  try {
    return { role, id, values: valuesOf(given), ...placeOf(given) }
  } catch (fault) {
    if (fault instanceof BadField) return { detail: fault.message }
    throw fault
  }
}

class BadField extends Error {}

function valuesOf(given: Readonly<Record<string, unknown>>): ReportPartial['values'] {
  const values: [ReportField, number][] = []
  for (const field of FIELDS) {
    const value = given[field]
    if (value === undefined || value === null) continue
    if (field === 'encoder_items') values.push([field, wholeNumber(field, value, MAX_ITEMS)])
    else if (field === 't_request_ingress_ns') values.push([field, wholeNumber(field, value, MOST_NS)])
    else values.push([field, decimalNumber(field, value)])
  }
  return values
}

function placeOf(
  given: Readonly<Record<string, unknown>>,
): Pick<ReportPartial, 'chunk' | 'chunks' | 'last' | 'item' | 'serial'> {
  const chunk = optional(given, 'chunk', MAX_CHUNKS - 1)
  const chunks = optional(given, 'chunks', MAX_CHUNKS)
  if (chunks === 0) throw new BadField('chunks must be at least 1, got 0')
  if (chunk === null && (chunks !== null || given['last'] === true))
    throw new BadField('chunks and last belong to a chunk: say which with chunk')
  return {
    chunk,
    chunks,
    last: flag(given, 'last') ?? false,
    item: optional(given, 'item', MAX_ITEMS - 1),
    serial: flag(given, 'serial'),
  }
}

function optional(given: Readonly<Record<string, unknown>>, name: string, most: number): number | null {
  const value = given[name]
  return value === undefined || value === null ? null : wholeNumber(name, value, most)
}

function flag(given: Readonly<Record<string, unknown>>, name: string): boolean | null {
  const value = given[name]
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value
  throw new BadField(`${name} must be true or false, got ${shown(value)}`)
}

function decimalNumber(name: string, value: unknown): number {
  const number = numberOf(value)
  if (number !== null && number >= 0 && number <= MOST_MS) return number
  throw new BadField(`${name} must be a number of milliseconds from 0 to ${MOST_MS}, got ${shown(value)}`)
}

function wholeNumber(name: string, value: unknown, most: number): number {
  const number = numberOf(value)
  if (number !== null && Number.isInteger(number) && number >= 0 && number <= most) return number
  throw new BadField(`${name} must be a whole number from 0 to ${most}, got ${shown(value)}`)
}

/** Numbers may be texts, because Python reporters read them from the environment. */
function numberOf(value: unknown): number | null {
  const number =
    typeof value === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : null
}

function isRole(role: string): role is ReportRole {
  return (ROLES as readonly string[]).includes(role)
}

function shown(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(String(value).slice(0, 64))
}
