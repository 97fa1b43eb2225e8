/** Is it a word? What books take for a number and is none would stay in their sums for good. */
import * as z from 'zod/mini'
import type { Word } from './words.ts'

/** More than anything can be, and so little that sums of it stay exact. */
const MOST = 2 ** 40

const text = z.string()
const number = z.number().check(z.gte(-MOST), z.lte(MOST))
const amount = z.number().check(z.gte(0), z.lte(MOST))
const count = z.int().check(z.gte(0), z.lte(MOST))
const stages = z.record(text, number)
const usage = z.nullable(z.looseObject({ promptTokens: amount, completionTokens: amount, cachedTokens: z.nullable(amount) }))
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
  hints: z.nullish(z.array(z.looseObject({ engine: text, matchedTokens: amount, tier: z.enum(['device', 'host', 'disk', 'remote']) }))),
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
  held: z.tuple([text, z.looseObject({ tenant: text, cluster: text, pool: text, engine: text, model: text })], z.unknown()),
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
