import { MAX_ID_CHARS } from './report-id.ts'

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
const MAX_STAGE_MS = 86_400_000

const MAX_INGRESS_NS = 2 ** 63

export const MAX_CHUNKS = 65_536

export const MAX_ITEMS = 1_024

/** Validates a partial report. Returns the error for its sender otherwise. */
export function readPartial(value: unknown): ReportPartial | { readonly detail: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { detail: 'a report must be a JSON object' }
  const fields = value as Readonly<Record<string, unknown>>
  const { role, request_id: id } = fields
  if (role === undefined || role === null || role === '' || id === undefined || id === null || id === '')
    return { detail: 'role or request_id missing' }
  if (typeof role !== 'string' || !isRole(role))
    return { detail: `role must be one of ${ROLES.join(', ')}, got ${quoted(role)}` }
  if (typeof id !== 'string' || id.length > MAX_ID_CHARS || !/^[\x21-\x7e]+$/.test(id)) {
    return {
      detail: `request_id must have 1 to ${MAX_ID_CHARS} printable characters without spaces, got ${quoted(id)}`,
    }
  }
  try {
    return { role, id, values: valuesOf(fields), ...placeOf(fields) }
  } catch (fault) {
    if (fault instanceof InvalidField) return { detail: fault.message }
    throw fault
  }
}

class InvalidField extends Error {}

function valuesOf(fields: Readonly<Record<string, unknown>>): ReportPartial['values'] {
  const values: [ReportField, number][] = []
  for (const field of FIELDS) {
    const value = fields[field]
    if (value === undefined || value === null) continue
    if (field === 'encoder_items') values.push([field, wholeNumber(field, value, MAX_ITEMS)])
    else if (field === 't_request_ingress_ns') values.push([field, wholeNumber(field, value, MAX_INGRESS_NS)])
    else values.push([field, decimalNumber(field, value)])
  }
  return values
}

function placeOf(
  fields: Readonly<Record<string, unknown>>,
): Pick<ReportPartial, 'chunk' | 'chunks' | 'last' | 'item' | 'serial'> {
  const chunk = optional(fields, 'chunk', MAX_CHUNKS - 1)
  const chunks = optional(fields, 'chunks', MAX_CHUNKS)
  if (chunks === 0) throw new InvalidField('chunks must be at least 1, got 0')
  if (chunk === null && (chunks !== null || fields['last'] === true))
    throw new InvalidField('chunks and last require chunk, the index of the chunk')
  return {
    chunk,
    chunks,
    last: flag(fields, 'last') ?? false,
    item: optional(fields, 'item', MAX_ITEMS - 1),
    serial: flag(fields, 'serial'),
  }
}

function optional(fields: Readonly<Record<string, unknown>>, name: string, max: number): number | null {
  const value = fields[name]
  return value === undefined || value === null ? null : wholeNumber(name, value, max)
}

function flag(fields: Readonly<Record<string, unknown>>, name: string): boolean | null {
  const value = fields[name]
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value
  throw new InvalidField(`${name} must be true or false, got ${quoted(value)}`)
}

function decimalNumber(name: string, value: unknown): number {
  const number = numberOf(value)
  if (number !== null && number >= 0 && number <= MAX_STAGE_MS) return number
  throw new InvalidField(`${name} must be a number of milliseconds from 0 to ${MAX_STAGE_MS}, got ${quoted(value)}`)
}

function wholeNumber(name: string, value: unknown, max: number): number {
  const number = numberOf(value)
  if (number !== null && Number.isInteger(number) && number >= 0 && number <= max) return number
  throw new InvalidField(`${name} must be a whole number from 0 to ${max}, got ${quoted(value)}`)
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

function quoted(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(String(value).slice(0, 64))
}
