/**
 * Messages of one pool's channel: `NUMBER REPLICA [EVENT, …]`. Each replica numbers its own. A value that the ledger
 * took for a number and is none would stay in its sums, so every event is validated.
 */
import type { Admission } from '../../../core/contract/admission.ts'
import type { BookingEvent } from '../../../core/contract/booking-event.ts'
import type { Decision } from '../../../core/contract/decision.ts'
import { readAdmission } from '../../../core/contract/decode.ts'
import type { EngineSignal } from '../../../core/contract/engine-signal.ts'
import { endedAs, type Outcome } from '../../../core/contract/outcome.ts'
import type { Placement } from '../../../core/contract/placement.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import { isBooking, NUMBER_FIELD } from './hash-fields.ts'

/** Calls that change a registry; queries are answered locally. */
type RegistryChange = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>

export const encodeRegistryCall = (call: RegistryChange): string =>
  JSON.stringify(call, (_name, value: unknown) =>
    value instanceof Uint32Array ? { lanes: base64(value) } : value instanceof Uint8Array ? [...value] : value,
  )

export const decodeRegistryCall = (json: string): RegistryChange =>
  JSON.parse(json, (name, value: { readonly lanes: string }) =>
    name === 'keys' && typeof value.lanes === 'string'
      ? lanes(value.lanes)
      : name === 'ranks' && Array.isArray(value)
        ? Uint8Array.from(value)
        : value,
  ) as RegistryChange

/** Part of every key. Raise it if older readers would misread events; the versions do not see each other then. */
export const WIRE_VERSION = 2

export type NewBookingEvent = readonly [
  kind: 'book',
  blockTokens: number,
  admission: EncodedAdmission,
  placement: Placement,
]

/** Everything that concerns no booking. */
export type NewsEvent =
  /** `at`: of two signals for one engine the later holds. */
  | readonly [kind: 'signal', signal: EngineSignal, at: number]
  /** Report of an LMCache server to the registry of one replica: JSON. */
  | readonly [kind: 'registry', call: string]
  | readonly [kind: 'forgotten', responseId: string]
  /** A question to all replicas: who made this decision? */
  | readonly [kind: 'explain', question: string, decision: string]
  | readonly [kind: 'explained', question: string, decision: Decision]

export type ChannelEvent =
  | NewBookingEvent
  | BookingEvent
  | NewsEvent
  /** `begin`: all bookings are written again; `piece`: some are in the hash; `whole`: all are. */
  | readonly [kind: 'begin' | 'piece' | 'whole' | 'leave']

const base64 = ({ buffer, byteOffset, byteLength }: Uint32Array | Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/**
 * Decoded into a buffer of its own. One from the pool of Node takes 0.3 µs less, but would keep the whole pool in
 * memory for as long as the booking is open.
 */
function lanes(text: string): Uint32Array {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, 'base64'))
  return new Uint32Array(bytes.buffer, 0, (bytes.write(text, 'base64') >> 3) * 2)
}

/** Neither who asked nor the prompt is sent. */
const PRIVATE = new Set(['blocks', 'tenant', 'session', 'overrides', 'unsplittable', 'avoid', 'chunks'])

/** Values that the readers add again: they are not sent. */
const DEFAULTS = readAdmission({ id: '' })

const NO_DETAILS = endedAs('complete')

export type EncodedAdmission = Pick<Admission, 'id'> & {
  readonly attempt?: number
  /** Base64 of little-endian 32-bit lanes, two a block. */
  readonly blocks: string
}

export const encodeAdmission = (admission: Admission): EncodedAdmission => ({
  ...(withoutDefaults(admission, DEFAULTS, PRIVATE) as { readonly id: string }),
  blocks: base64(admission.blocks),
})

export const encodeOutcome = (outcome: Outcome): Outcome => ({
  ...(withoutDefaults(outcome, NO_DETAILS) as Outcome),
  result: outcome.result,
})

function withoutDefaults<Whole extends object>(
  whole: Whole,
  defaults: Whole,
  omitted?: ReadonlySet<string>,
): Partial<Whole> {
  const kept: Partial<Whole> = {}
  for (const name in whole) if (whole[name] !== defaults[name] && omitted?.has(name) !== true) kept[name] = whole[name]
  return kept
}

export const decodeAdmission = (encoded: EncodedAdmission): Admission => ({
  ...DEFAULTS,
  ...encoded,
  blocks: lanes(encoded.blocks),
})

type Check = (value: unknown) => boolean

/** Upper bound of every amount; sums of it stay exact. */
const MAX_AMOUNT = 2 ** 40

const isText: Check = (value) => typeof value === 'string'

const isNumber: Check = (value) => typeof value === 'number' && value >= -MAX_AMOUNT && value <= MAX_AMOUNT

const isAmount: Check = (value) => isNumber(value) && (value as number) >= 0

const isCount: Check = (value) => Number.isInteger(value) && isAmount(value)

const isPositive: Check = (value) => isAmount(value) && value !== 0

const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

const oneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value)

const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)

/** Absent and null are allowed. */
const nullable =
  (check: Check): Check =>
  (value) =>
    value === undefined || value === null || check(value)

const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check)

/** Fields beyond those of the shape are allowed. */
function object(shape: Readonly<Record<string, Check>>): Check {
  const checks = Object.entries(shape)
  return (value) =>
    isObject(value) && checks.every(([name, check]) => check((value as Readonly<Record<string, unknown>>)[name]))
}

const isStages: Check = (value) => isObject(value) && Object.values(value as object).every(isNumber)

const isUsage = object({ promptTokens: isAmount, completionTokens: isAmount, cachedTokens: nullable(isAmount) })

const isHint = object({ engine: isText, matchedTokens: isAmount, tier: oneOf('device', 'host', 'disk', 'remote') })

const isAdmission = object({
  id: isText,
  attempt: optional(isCount),
  model: optional(isText),
  adapter: nullable(isText),
  promptTokens: optional(isAmount),
  blocks: isText,
  priority: optional(isNumber),
  expectedOutputTokens: nullable(isAmount),
  hints: nullable(listOf(isHint)),
  splitTokens: optional(isAmount),
  sequences: optional((value) => isCount(value) && value !== 0),
  encodeItems: optional(isAmount),
})

const adapterLoad = object({ load: isText, unload: listOf(isText) })

const whole = object({ kind: oneOf('whole'), engine: isText, adapter: optional(adapterLoad) })

const split = object({ kind: oneOf('split'), prefill: isText, decode: isText })

const staged = object({ kind: oneOf('staged'), encode: listOf(isText), prefill: nullable(isText), decode: isText })

const drain = object({ kind: oneOf('drain'), engine: isText, draining: oneOf(true, false) })

const excused = object({ kind: oneOf('excused'), engine: isText, booking: isText })

const paused = object({
  kind: oneOf('pause'),
  engine: isText,
  paused: nullable(object({ keeps: oneOf(true, false), weights: nullable(isText) })),
  isCold: optional(oneOf(true, false)),
})

const fenced = object({ kind: oneOf('fence'), engine: isText })

const adapterSettled = object({
  kind: oneOf('adapter'),
  engine: isText,
  adapter: isText,
  loaded: oneOf(true, false),
})

const SIGNALS: readonly Check[] = [drain, excused, paused, fenced, adapterSettled]

const isOutcome = object({
  result: oneOf('complete', 'client_gone', 'engine_failed', 'engine_refused', 'abandoned', 'lapsed'),
  failure: nullable(isText),
  usage: nullable(isUsage),
  outputEvents: optional(isAmount),
  stages: optional(isStages),
})

/** Fields behind the kind; later versions may append more. A schema library took 32 µs a request here. */
const EVENTS: Readonly<Record<ChannelEvent[0], readonly Check[]>> = {
  book: [isPositive, isAdmission, (value) => whole(value) || split(value) || staged(value)],
  leg_done: [isText, oneOf('encode', 'prefill'), isStages, nullable(isUsage)],
  first_token: [isText, isStages],
  progress: [isText, isAmount],
  release: [isText, isOutcome],
  signal: [(value) => SIGNALS.some((isSignal) => isSignal(value)), Number.isSafeInteger],
  registry: [isText],
  forgotten: [isText],
  explain: [isText, isText],
  explained: [isText, isObject],
  begin: [],
  piece: [],
  whole: [],
  leave: [],
}

/** null: the text is no message. `events`: JSON of a list. */
export function readMessage(text: string): { number: number; replica: string; events: string } | null {
  const [head = '', number, replica = ''] = /^(\d{1,16}) (\S+) /.exec(text) ?? []
  return head === '' ? null : { number: Number(number), replica, events: text.slice(head.length) }
}

/** Valid events. Kinds of later versions are skipped; invalid events are reported to `invalid` and skipped. */
export function readEvents(json: string, invalid: (error: Error) => void): ChannelEvent[] {
  try {
    return (JSON.parse(json) as unknown[]).filter((event): event is ChannelEvent => isEvent(event, invalid))
  } catch {
    invalid(new Error('a message of another replica is not a list of events'))
    return []
  }
}

function isEvent(event: unknown, invalid: (error: Error) => void): boolean {
  const kind: unknown = Array.isArray(event) ? event[0] : null
  if (typeof kind === 'string' && !Object.hasOwn(EVENTS, kind)) return false
  const isValid =
    typeof kind === 'string' &&
    EVENTS[kind as ChannelEvent[0]].every((check, at) => check((event as readonly unknown[])[at + 1]))
  if (!isValid) invalid(new Error(`an event "${String(kind)}" of another replica is invalid`))
  return isValid
}

/**
 * Open bookings, drains and pauses of a replica from the fields of its hash, bookings before their events. The times of
 * stages belong to the replica that measured them.
 */
export function* readHash(
  fields: ReadonlyMap<string, string>,
  invalid: (error: Error) => void,
): Generator<ChannelEvent> {
  for (const areBookings of [true, false])
    for (const [field, value] of fields) {
      if (field === NUMBER_FIELD || isBooking(field) !== areBookings) continue
      for (const event of readEvents(`[${value}]`, invalid))
        if (event[0] === 'first_token') yield [event[0], event[1], {}]
        else if (event[0] === 'leg_done') yield [event[0], event[1], event[2], {}, null]
        else yield event
    }
}
