/** Is it a word? What books take for a number and is none would stay in their sums for good. */
import type { Word } from './words.ts'

type Check = (value: unknown) => boolean

/** More than anything can be, and so little that sums of it stay exact. */
const MOST = 2 ** 40

const text: Check = (value) => typeof value === 'string'
const flag: Check = (value) => typeof value === 'boolean'
const amount: Check = (value) => typeof value === 'number' && value >= 0 && value <= MOST
const whole: Check = (value) => Number.isSafeInteger(value) && amount(value)
const number: Check = (value) => typeof value === 'number' && Math.abs(value) <= MOST
const oneOf = (...words: readonly unknown[]): Check => (value) => words.includes(value)
const or = (...checks: readonly Check[]): Check => (value) => checks.some((check) => check(value))
const none: Check = (value) => value === null
const absent: Check = (value) => value === undefined
const list = (check: Check): Check => (value) => Array.isArray(value) && value.every(check)
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null && !Array.isArray(value)
const shaped = (shape: Readonly<Record<string, Check>>): Check => {
  const fields = Object.entries(shape)
  return (value) => isObject(value) && fields.every(([name, check]) => check(value[name]))
}
const tuple = (...checks: readonly Check[]): Check => (value) => Array.isArray(value) && checks.every((check, at) => check(value[at]))

const part = oneOf('encode', 'prefill')
const stages: Check = (value) => isObject(value) && Object.values(value).every(number)
const usage = or(none, shaped({ promptTokens: amount, completionTokens: amount, cachedTokens: or(none, amount) }))
const pool = tuple(text, text)

const asked = shaped({
  id: text,
  attempt: whole,
  model: text,
  adapter: or(none, text, absent),
  promptTokens: amount,
  tokenSource: or(text, absent),
  blocks: text,
  priority: or(Number.isFinite, absent),
  expectedOutputTokens: or(none, amount, absent),
  hints: or(none, absent, list(shaped({ engine: text, matchedTokens: amount, tier: oneOf('device', 'host', 'disk', 'remote') }))),
  splitTokens: or(amount, absent),
  sequences: or(absent, (value) => whole(value) && value !== 0),
  encodeItems: or(amount, absent),
})

const PLACEMENTS: Readonly<Record<string, Check>> = {
  whole: shaped({ engine: text }),
  split: shaped({ prefill: text, decode: text }),
  staged: shaped({ encode: list(text), prefill: or(none, text), decode: text }),
}
const placement: Check = (value) => isObject(value) && named(PLACEMENTS, value['kind'])?.(value) === true

const SIGNALS: Readonly<Record<string, Check>> = {
  drain: shaped({ engine: text, draining: flag }),
  excused: shaped({ engine: text, booking: text }),
}
const signal: Check = (value) => isObject(value) && named(SIGNALS, value['kind'])?.(value) === true

const outcome = shaped({
  result: oneOf('complete', 'client_gone', 'engine_failed', 'engine_refused', 'abandoned', 'lapsed'),
  failure: or(none, text, absent),
  usage: or(usage, absent),
  outputEvents: or(amount, absent),
  stages: or(stages, absent),
})

const WORDS: Readonly<Record<Word[0], Check>> = {
  hello: tuple(text, shaped({ wire: number, id: text, version: text })),
  book: tuple(text, pool, (value) => amount(value) && value !== 0, asked, placement, or(absent, shaped({ firstTokenSeen: flag, legsDone: or(absent, list(part)), outputBlocks: amount }))),
  leg_done: tuple(text, text, part, stages, usage),
  first_token: tuple(text, text, stages),
  progress: tuple(text, text, amount),
  release: tuple(text, text, outcome),
  signal: tuple(text, pool, signal, Number.isSafeInteger),
  registry: tuple(text, pool, isObject),
  held: tuple(text, text, shaped({ tenant: text, cluster: text, pool: text, engine: text, model: text })),
  forgotten: tuple(text, text),
  all: () => true,
  bye: () => true,
}

const named = (checks: Readonly<Record<string, Check>>, name: unknown): Check | undefined => (typeof name === 'string' && Object.hasOwn(checks, name) ? checks[name] : undefined)

/** The words of a line. Throws at what is none; those of a later version are left out. */
export function readLine(line: string): readonly Word[] {
  const words: unknown = JSON.parse(line)
  if (!Array.isArray(words)) throw new Error('a line that is no list')
  return words.filter(isWord)
}

function isWord(word: unknown): word is Word {
  if (!Array.isArray(word) || typeof word[0] !== 'string') throw new Error('no word')
  const check = named(WORDS, word[0])
  if (check !== undefined && !check(word)) throw new Error(`not as "${word[0]}" is said`)
  return check !== undefined
}
