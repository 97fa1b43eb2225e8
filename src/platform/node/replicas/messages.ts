/** Is it a word? What books take for a number and is none would stay in their sums for good. */
import * as z from 'zod/mini'
import type { StoredResponse, PoolName } from '../../../ports.ts'
import type { Admission, EngineSignal, Placement, Resume } from '../../../core/contract/contract.ts'
import type { BookingEvent } from '../../../core/contract/booking-events.ts'
import type { CacheEvents, RegistryCall } from '../../../core/lmcache/registry-call.ts'
import { readAdmission } from '../../../core/contract/decode.ts'

/* What a replica says of its bookings to those who read its log: a line of JSON, a list of words, for each turn of its loop. */

/** Raise it when older readers would take words for what they are not. */
export const WIRE_VERSION = 1

/** How a booking has come along that was made before its reader joined. */
export type Course = Pick<Resume, 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>

export const JUST_MADE: Course = { firstTokenSeen: false, outputBlocks: 0 }

export type Word =
  | readonly [said: 'hello', hello: { readonly wire: number; readonly id: string; readonly version: string }]
  | readonly [
      said: 'book',
      pool: PoolName,
      blockTokens: number,
      asked: SentAdmission,
      placement: Placement,
      course?: Course,
    ]
  | BookingEvent
  /** `at`: of two that an operator said of one engine the later holds. */
  | readonly [said: 'signal', pool: PoolName, signal: EngineSignal, at: number]
  /** What an LMCache server told this one's registry. */
  | readonly [said: 'registry', pool: PoolName, call: SentCall]
  | readonly [said: 'held', id: string, holding: StoredResponse]
  | readonly [said: 'forgotten', id: string]
  /** All that lives was told: what was known before and not told again has ended. */
  | readonly [said: 'all']
  /** It ends in order, and its bookings with it. */
  | readonly [said: 'bye']

/** As much of an admission as books are kept of: neither who asked nor what was said. */
export type SentAdmission = Omit<
  Admission,
  'blocks' | 'tenant' | 'session' | 'overrides' | 'unsplittable' | 'avoid' | 'chunks'
> & {
  /** Base64 of little-endian 32-bit lanes, two a block. */
  readonly blocks: string
}

/** Questions are answered by whoever is asked. */
export type Told = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>
type Events = Extract<RegistryCall, { readonly kind: 'events' }>
export type SentCall =
  | Exclude<Told, Events>
  | {
      readonly kind: 'events'
      readonly batches: readonly (Omit<CacheEvents, 'keys' | 'ranks'> & {
        readonly keys: string
        readonly ranks: string
      })[]
    }

export function sentCall(call: Told): SentCall {
  return call.kind === 'events'
    ? {
        ...call,
        batches: call.batches.map((batch) => ({ ...batch, keys: base64(batch.keys), ranks: base64(batch.ranks) })),
      }
    : call
}

export function receivedCall(call: SentCall): Told {
  return call.kind === 'events'
    ? {
        ...call,
        batches: call.batches.map((batch) => ({
          ...batch,
          keys: lanes(batch.keys),
          ranks: Uint8Array.from(Buffer.from(batch.ranks, 'base64')),
        })),
      }
    : call
}

const base64 = ({ buffer, byteOffset, byteLength }: Uint32Array | Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/** Copied: what Node makes of base64 may begin at any byte. */
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

/** More than anything can be, and so little that sums of it stay exact. */
const MOST = 2 ** 40

const text = z.string()
const number = z.number().check(z.gte(-MOST), z.lte(MOST))
const amount = z.number().check(z.gte(0), z.lte(MOST))
const count = z.int().check(z.gte(0), z.lte(MOST))
const stages = z.record(text, number)
const usage = z.nullable(
  z.looseObject({ promptTokens: amount, completionTokens: amount, cachedTokens: z.nullable(amount) }),
)
const pool = z.tuple([text, text])

const asked = z.looseObject({
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

/** What follows the name of the word; later versions may say more behind it. */
const WORDS: Readonly<Record<Word[0], z.ZodMiniType>> = {
  hello: z.tuple([z.looseObject({ wire: number, id: text, version: text })], z.unknown()),
  book: z.tuple([pool, amount.check(z.gt(0)), asked, placement, z.optional(course)], z.unknown()),
  leg_done: z.tuple([text, part, stages, usage], z.unknown()),
  first_token: z.tuple([text, stages], z.unknown()),
  progress: z.tuple([text, amount], z.unknown()),
  release: z.tuple([text, outcome], z.unknown()),
  signal: z.tuple([pool, signal, z.int()], z.unknown()),
  registry: z.tuple([pool, z.looseObject({})], z.unknown()),
  held: z.tuple(
    [text, z.looseObject({ tenant: text, cluster: text, pool: text, engine: text, model: text })],
    z.unknown(),
  ),
  forgotten: z.tuple([text], z.unknown()),
  all: z.unknown(),
  bye: z.unknown(),
}

const line = z.array(z.tuple([text], z.unknown()))

/** The words of a line. Throws at what is none; those of a later version are left out. */
export function readLine(json: string): readonly Word[] {
  return line.parse(JSON.parse(json)).filter(isWord) as unknown as readonly Word[]
}

function isWord(word: readonly [string, ...unknown[]]): boolean {
  const [said, ...rest] = word
  if (!Object.hasOwn(WORDS, said)) return false
  const { success, error } = WORDS[said as Word[0]].safeParse(rest)
  if (!success) throw new Error(`not as "${said}" is said: ${error.message}`)
  return true
}
