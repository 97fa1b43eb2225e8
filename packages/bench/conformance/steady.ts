/** A stream that a busy engine divides differently keeps its recording. */
import { dataOf, bodyText } from './vector.ts'
import type { Exchange, VectorFile } from './vector.ts'

/** Whether a stream ends as the recorded one. Its beginning depends on the machine's load. */
export function endsAlike(recorded: string | null, anew: string): boolean {
  return recorded !== null && endOf(recorded) === endOf(anew)
}

const endOf = (text: string): string => text.split('\n\n').slice(-3).join('\n\n')

/**
 * Exchanges of a new recording. Streams that differ from the last recording only in their division are taken from that.
 * @param recorded the vector file
 */
export function keepDivision(recorded: string | null, anew: readonly Exchange[]): Exchange[] {
  const { exchanges } = recorded === null ? { exchanges: [] } : (JSON.parse(recorded) as VectorFile)
  const before = new Map(exchanges.map((exchange) => [exchange.name, exchange]))
  return anew.map((exchange) => {
    const last = before.get(exchange.name)
    return last !== undefined && saysTheSame(last, exchange) ? last : exchange
  })
}

function saysTheSame(one: Exchange, other: Exchange): boolean {
  if (one.response.sse === undefined || other.response.sse === undefined) return false
  return JSON.stringify(factsOf(one)) === JSON.stringify(factsOf(other))
}

const factsOf = (exchange: Exchange): unknown => {
  const { request, response } = exchange
  return [request, response.status, response.headers, wholeOf(exchange)]
}

/** The complete response: pieces of text and lists are joined, choices by their index. */
function wholeOf({ response }: Exchange): unknown {
  const data = dataOf(bodyText(response))
  return [
    data.filter((value) => value !== '[DONE]').reduce((sum, value) => joined(sum, value), {}),
    data.at(-1) === '[DONE]',
  ]
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Fields whose text arrives in pieces. */
const PIECES: ReadonlySet<string> = new Set(['text', 'content', 'reasoning', 'arguments'])

function joined(sum: unknown, value: unknown, key = ''): unknown {
  if (sum === null || sum === undefined) {
    if (key === 'choices') return byIndex([], value)
    return isFields(value) ? joined({}, value) : value
  }
  if (value === null || value === undefined) return sum
  if (key === 'choices') return byIndex(sum as readonly unknown[], value)
  if (typeof sum === 'string' && typeof value === 'string' && PIECES.has(key)) return sum + value
  if (Array.isArray(sum) && Array.isArray(value)) return [...(sum as unknown[]), ...(value as unknown[])]
  if (!isFields(sum) || !isFields(value)) return value
  const names = [...new Set([...Object.keys(sum), ...Object.keys(value)])].sort()
  return Object.fromEntries(names.map((name) => [name, joined(sum[name], value[name], name)]))
}

function byIndex(sum: readonly unknown[], value: unknown): unknown[] {
  const choices = [...sum]
  for (const choice of Array.isArray(value) ? (value as unknown[]) : []) {
    const at = isFields(choice) ? Number(choice['index']) : 0
    choices[at] = joined(choices[at], choice)
  }
  return choices
}
