/**
 * Messages of one pool's channel: `NUMBER REPLICA [EVENT, …]`. Numbers are consecutive within a pool. A value that the
 * ledger took for a number and is none would stay in its sums, so every event is validated.
 */
import * as z from 'zod/mini'
import type { Admission, Decision, EngineSignal, Placement, Resume } from '../../../core/contract/contract.ts'
import type { BookingEvent } from '../../../core/contract/booking-events.ts'
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

/** Copied, because a buffer that Node decodes from base64 may begin at any byte. */
function lanes(text: string): Uint32Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  return new Uint32Array(bytes.buffer, 0, (bytes.length >> 3) * 2)
}

export function sent({
  blocks,
  tenant: _tenant,
  session: _session,
  overrides: _overrides,
  unsplittable: _unsplittable,
  avoid: _avoid,
  chunks: _chunks,
  ...kept
}: Admission): SentAdmission {
  return { ...kept, blocks: base64(blocks) }
}

export function received({ blocks, ...kept }: SentAdmission): Admission {
  return readAdmission({ ...kept, blocks: lanes(blocks) })
}

/** Upper bound of every amount; sums of it stay exact. */
const MOST = 2 ** 40

const text = z.string()
const finite = z.number().check(z.gte(-MOST), z.lte(MOST))
const amount = z.number().check(z.gte(0), z.lte(MOST))
const count = z.int().check(z.gte(0), z.lte(MOST))
const stages = z.record(text, finite)
const usage = z.nullable(
  z.looseObject({ promptTokens: amount, completionTokens: amount, cachedTokens: z.nullable(amount) }),
)

const admission = z.looseObject({
  id: text,
  attempt: count,
  model: text,
  adapter: z.nullish(text),
  promptTokens: amount,
  tokenSource: z.optional(text),
  blocks: text,
  priority: z.optional(z.number()),
  expectedOutputTokens: z.nullish(amount),
  hints: z.nullish(
    z.array(z.looseObject({ engine: text, matchedTokens: amount, tier: z.enum(['device', 'host', 'disk', 'remote']) })),
  ),
  splitTokens: z.optional(amount),
  sequences: z.optional(count.check(z.gte(1))),
  encodeItems: z.optional(amount),
})

const placement = z.discriminatedUnion('kind', [
  z.looseObject({ kind: z.literal('whole'), engine: text }),
  z.looseObject({ kind: z.literal('split'), prefill: text, decode: text }),
  z.looseObject({ kind: z.literal('staged'), encode: z.array(text), prefill: z.nullable(text), decode: text }),
])

const signal = z.discriminatedUnion('kind', [
  z.looseObject({ kind: z.literal('drain'), engine: text, draining: z.boolean() }),
  z.looseObject({ kind: z.literal('excused'), engine: text, booking: text }),
])

const part = z.enum(['encode', 'prefill'])
const course = z.looseObject({ firstTokenSeen: z.boolean(), legsDone: z.optional(z.array(part)), outputBlocks: amount })

const outcome = z.looseObject({
  result: z.enum(['complete', 'client_gone', 'engine_failed', 'engine_refused', 'abandoned', 'lapsed']),
  failure: z.nullish(text),
  usage: z.optional(usage),
  outputEvents: z.optional(amount),
  stages: z.optional(stages),
})

/** Fields behind the kind; later versions may append more. */
const EVENTS: Readonly<Record<PoolEvent[0], z.ZodMiniType>> = {
  book: z.tuple([amount.check(z.gt(0)), admission, placement, z.optional(course)], z.unknown()),
  leg_done: z.tuple([text, part, stages, usage], z.unknown()),
  first_token: z.tuple([text, stages], z.unknown()),
  progress: z.tuple([text, amount], z.unknown()),
  release: z.tuple([text, outcome], z.unknown()),
  signal: z.tuple([signal, z.int()], z.unknown()),
  registry: z.tuple([z.looseObject({})], z.unknown()),
  forgotten: z.tuple([text], z.unknown()),
  explain: z.tuple([text, text], z.unknown()),
  explained: z.tuple([text, z.nullable(z.looseObject({}))], z.unknown()),
  begin: z.unknown(),
  end: z.unknown(),
  leave: z.unknown(),
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

const list = z.array(z.tuple([text], z.unknown()))

/** Valid events of a list. Kinds of later versions are skipped; invalid events are reported to `invalid` and skipped. */
export function readEvents(json: string, invalid: (error: Error) => void): readonly PoolEvent[] {
  const events = list.safeParse(parsed(json))
  if (!events.success) {
    invalid(new Error('a message of another replica is no list of events'))
    return []
  }
  return events.data.filter((event) => isEvent(event, invalid)) as unknown as readonly PoolEvent[]
}

function isEvent([kind, ...rest]: readonly [string, ...unknown[]], invalid: (error: Error) => void): boolean {
  if (!Object.hasOwn(EVENTS, kind)) return false
  const { success, error } = EVENTS[kind as PoolEvent[0]].safeParse(rest)
  if (!success) invalid(new Error(`an event "${kind}" of another replica is invalid: ${error.message}`))
  return success
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
