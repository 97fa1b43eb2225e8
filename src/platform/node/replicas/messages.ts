/**
 * Messages of one pool's channel: `NUMBER REPLICA [EVENT, …]`. Numbers are consecutive within a pool. A value that the
 * ledger took for a number and is none would stay in its sums, so every event is validated.
 */
import type { Admission, Decision, EngineSignal, Placement, Resume } from '../../../core/contract/contract.ts'
import type { BookingEvent } from '../../../core/contract/legs.ts'
import type { CacheEvents, RegistryCall } from '../../../core/lmcache/registry-call.ts'
import { readAdmission } from '../../../core/contract/decode.ts'

/** Part of every key. Raise it if older readers would misread events; the versions do not see each other then. */
export const WIRE_VERSION = 1

/** Progress of a booking that was made before its reader joined. */
export type Course = Pick<Resume, 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>

export const JUST_MADE: Course = { firstTokenSeen: false, outputBlocks: 0 }

export type BookEvent = readonly [
  kind: 'book',
  blockTokens: number,
  admission: SentAdmission,
  placement: Placement,
  course?: Course,
]

export type PoolEvent =
  | BookEvent
  | BookingEvent
  /** `at`: of two signals for one engine the later holds. */
  | readonly [kind: 'signal', signal: EngineSignal, at: number]
  /** Report of an LMCache server to the registry of one replica. */
  | readonly [kind: 'registry', call: SentCall]
  | readonly [kind: 'forgotten', responseId: string]
  /** A question to all replicas: who made this decision? */
  | readonly [kind: 'explain', question: string, decision: string]
  | readonly [kind: 'explained', question: string, decision: Decision | null]
  /** All open bookings follow; what was known before and is not among them has ended. */
  | readonly [kind: 'begin']
  | readonly [kind: 'end']
  | readonly [kind: 'leave']

/** What the ledger needs of an admission: neither who asked nor the prompt. */
export type SentAdmission = Omit<
  Admission,
  'blocks' | 'tenant' | 'session' | 'overrides' | 'unsplittable' | 'avoid' | 'chunks'
> & {
  /** Base64 of little-endian 32-bit lanes, two a block. */
  readonly blocks: string
}

/** Calls that change a registry; queries are answered locally. */
export type RegistryChange = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>
type Events = Extract<RegistryCall, { readonly kind: 'events' }>
export type SentCall =
  | Exclude<RegistryChange, Events>
  | {
      readonly kind: 'events'
      readonly batches: readonly (Omit<CacheEvents, 'keys' | 'ranks'> & {
        readonly keys: string
        readonly ranks: string
      })[]
    }

export function sentCall(call: RegistryChange): SentCall {
  if (call.kind !== 'events') return call
  const batches = call.batches.map((batch) => ({ ...batch, keys: base64(batch.keys), ranks: base64(batch.ranks) }))
  return { ...call, batches }
}

export function receivedCall(call: SentCall): RegistryChange {
  if (call.kind !== 'events') return call
  const batches = call.batches.map((batch) => ({
    ...batch,
    keys: lanes(batch.keys),
    ranks: Uint8Array.from(Buffer.from(batch.ranks, 'base64')),
  }))
  return { ...call, batches }
}

const base64 = ({ buffer, byteOffset, byteLength }: Uint32Array | Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/** Decoded into a buffer of its own, because one from the pool of Node may begin at any byte. */
function lanes(text: string): Uint32Array {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, 'base64'))
  const written = bytes.write(text, 'base64')
  return new Uint32Array(bytes.buffer, 0, (written >> 3) * 2)
}

/** Values that `readAdmission` adds again: they are not sent. */
const ADMISSION_DEFAULTS: Readonly<Record<string, unknown>> = {
  configVersion: 0,
  adapter: null,
  priority: 0,
  expectedOutputTokens: null,
  hints: null,
  encodeItems: 0,
}

const NOT_SENT: ReadonlySet<string> = new Set([
  'blocks',
  'tenant',
  'session',
  'overrides',
  'unsplittable',
  'avoid',
  'chunks',
])

/** Fields of the admission that the ledgers of other replicas use, without those that have their default value. */
export function sent(admission: Admission): SentAdmission {
  const kept: Record<string, unknown> = {}
  for (const name in admission) {
    if (NOT_SENT.has(name)) continue
    const value = admission[name as keyof Admission]
    if (value !== ADMISSION_DEFAULTS[name]) kept[name] = value
  }
  kept['blocks'] = base64(admission.blocks)
  return kept as unknown as SentAdmission
}

export function received({ blocks, ...kept }: SentAdmission): Admission {
  return readAdmission({ ...kept, blocks: lanes(blocks) })
}

type Check = (value: unknown) => boolean

/** Upper bound of every amount; sums of it stay exact. */
const MOST = 2 ** 40

const isText: Check = (value) => typeof value === 'string'
const isFinite: Check = (value) => typeof value === 'number' && value >= -MOST && value <= MOST
const isAmount: Check = (value) => typeof value === 'number' && value >= 0 && value <= MOST
const isPositive: Check = (value) => isAmount(value) && value !== 0
const isCount: Check = (value) => Number.isInteger(value) && isAmount(value)
const isBoolean: Check = (value) => typeof value === 'boolean'
const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)
const nullish =
  (check: Check): Check =>
  (value) =>
    value === undefined || value === null || check(value)
const nullable =
  (check: Check): Check =>
  (value) =>
    value === null || check(value)
const oneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value)
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check)
const recordOf =
  (check: Check): Check =>
  (value) =>
    isObject(value) && Object.values(value as object).every(check)

/** Keys beyond those of the shape are allowed. */
function object(shape: Readonly<Record<string, Check>>): Check {
  const [keys, checks] = [Object.keys(shape), Object.values(shape)]
  return (value) => {
    if (!isObject(value)) return false
    for (let at = 0; at < keys.length; at++)
      if (!checks[at]!((value as Record<string, unknown>)[keys[at]!])) return false
    return true
  }
}

const isStages = recordOf(isFinite)
const isUsage = nullable(
  object({ promptTokens: isAmount, completionTokens: isAmount, cachedTokens: nullable(isAmount) }),
)
const isHint = object({
  engine: isText,
  matchedTokens: isAmount,
  tier: oneOf('device', 'host', 'disk', 'remote'),
})
const isAdmission = object({
  id: isText,
  attempt: isCount,
  model: isText,
  adapter: nullish(isText),
  promptTokens: isAmount,
  tokenSource: optional(isText),
  blocks: isText,
  priority: optional(isFinite),
  expectedOutputTokens: nullish(isAmount),
  hints: nullish(listOf(isHint)),
  splitTokens: optional(isAmount),
  sequences: optional((value) => isCount(value) && value !== 0),
  encodeItems: optional(isAmount),
})
const PLACEMENTS = [
  object({ kind: oneOf('whole'), engine: isText }),
  object({ kind: oneOf('split'), prefill: isText, decode: isText }),
  object({ kind: oneOf('staged'), encode: listOf(isText), prefill: nullable(isText), decode: isText }),
]
const SIGNALS = [
  object({ kind: oneOf('drain'), engine: isText, draining: isBoolean }),
  object({ kind: oneOf('excused'), engine: isText, booking: isText }),
]
const isPart = oneOf('encode', 'prefill')
const isCourse = object({ firstTokenSeen: isBoolean, legsDone: optional(listOf(isPart)), outputBlocks: isAmount })
const isOutcome = object({
  result: oneOf('complete', 'client_gone', 'engine_failed', 'engine_refused', 'abandoned', 'lapsed'),
  failure: nullish(isText),
  usage: optional(isUsage),
  outputEvents: optional(isAmount),
  stages: optional(isStages),
})
const anyOf =
  (checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value))

/** Fields behind the kind; later versions may append more. A schema library took 32 µs a request here. */
const EVENTS: Readonly<Record<PoolEvent[0], readonly Check[]>> = {
  book: [isPositive, isAdmission, anyOf(PLACEMENTS), optional(isCourse)],
  leg_done: [isText, isPart, isStages, isUsage],
  first_token: [isText, isStages],
  progress: [isText, isAmount],
  release: [isText, isOutcome],
  signal: [anyOf(SIGNALS), Number.isSafeInteger],
  registry: [isObject],
  forgotten: [isText],
  explain: [isText, isText],
  explained: [isText, nullable(isObject)],
  begin: [],
  end: [],
  leave: [],
}

export interface Header {
  readonly number: number
  readonly replica: string
  /** JSON of a list of events. */
  readonly events: string
}

/** null: the text is no message. */
export function readHeader(message: string): Header | null {
  const end = message.indexOf(' ')
  const next = message.indexOf(' ', end + 1)
  const number = Number(message.slice(0, end))
  if (end <= 0 || next < 0 || !Number.isSafeInteger(number)) return null
  return { number, replica: message.slice(end + 1, next), events: message.slice(next + 1) }
}

/**
 * Valid events of a list. Kinds of later versions are skipped; invalid events are reported to `invalid` and skipped.
 */
export function readEvents(json: string, invalid: (error: Error) => void): readonly PoolEvent[] {
  const events = parsed(json)
  if (Array.isArray(events)) return events.filter((event) => isEvent(event, invalid))
  invalid(new Error('a message of another replica is no list of events'))
  return []
}

function isEvent(event: unknown, invalid: (error: Error) => void): event is PoolEvent {
  const kind: unknown = Array.isArray(event) ? event[0] : null
  if (typeof kind === 'string' && !Object.hasOwn(EVENTS, kind)) return false
  const isValid =
    typeof kind === 'string' &&
    EVENTS[kind as PoolEvent[0]].every((check, at) => check((event as readonly unknown[])[at + 1]))
  if (!isValid) invalid(new Error(`an event "${String(kind)}" of another replica is invalid`))
  return isValid
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}

/** Reads open bookings and drains of a replica from the fields of its hash, one after the other. */
export function* readHash(fields: ReadonlyMap<string, string>, invalid: (error: Error) => void): Generator<PoolEvent> {
  for (const [field, value] of fields) {
    if (field[0] !== 'b' && field[0] !== 's') continue
    for (const event of readEvents(`[${value}]`, invalid)) {
      if (event[0] !== 'book') yield event
      else {
        yield withMarks(event, field.slice(1), fields)
        yield* progressOf(field.slice(1), fields)
      }
    }
  }
}

const progressOf = (key: string, fields: ReadonlyMap<string, string>): readonly PoolEvent[] => {
  const progress = fields.get(`o${key}`)
  return progress === undefined ? [] : readEvents(`[${progress}]`, () => undefined)
}

function withMarks(book: BookEvent, key: string, fields: ReadonlyMap<string, string>): BookEvent {
  const [kind, blockTokens, asked, place, known = JUST_MADE] = book
  const legsDone = new Set(known.legsDone)
  if (fields.has(`e${key}`)) legsDone.add('encode')
  if (fields.has(`p${key}`)) legsDone.add('prefill')
  const firstTokenSeen = known.firstTokenSeen || fields.has(`f${key}`)
  return [kind, blockTokens, asked, place, { ...known, firstTokenSeen, legsDone: [...legsDone] }]
}
