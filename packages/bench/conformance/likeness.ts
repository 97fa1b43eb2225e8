/**
 * Compares two responses: the same fields in the same order, the same types, and the same values where an engine has no
 * choice. Generated text and its division into tokens and events may differ.
 */
import { normalise } from './normaliser.ts'
import { bodyText, dataOf } from './vector.ts'
import type { RecordedResponse } from './vector.ts'

/** Values that a model or tokenizer generates: only their type is compared. */
const made = new Set([
  'content',
  'text',
  'delta',
  'arguments',
  'token',
  'logprob',
  'bytes',
  'token_logprobs',
  'top_logprobs',
  'tokens',
  'token_ids',
  'token_strs',
  'prompt_token_ids',
  'prompt',
  'root',
  'text_offset',
  'index',
])

/** Only in the first event of a choice, which is also its last if all tokens come at once. */
const inFirstEvent = new Set(['prompt_token_ids'])

/** Not compared: engines differ, and so do two responses of one engine that divides its text into different events. */
const ignored = new Set(['system_fingerprint', 'sequence_number'])

/** Counts that depend on the tokens of a prompt and on earlier requests. */
const counted = new Set([
  'prompt_tokens',
  'total_tokens',
  'input_tokens',
  'original_input_tokens',
  'count',
  'cached_tokens',
  'created_cache_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
])

export interface Tolerance {
  /** Texts and token ids may differ. */
  readonly made: boolean
  /** Counts of prompt and cached tokens may differ. */
  readonly counted: boolean
}

/** Differences of `other` from `real`, as sentences with a path; empty if there are none. */
export function differences(real: RecordedResponse, other: RecordedResponse, tolerance: Tolerance): string[] {
  const found: string[] = []
  if (real.status !== other.status) found.push(`status is ${other.status}, not ${real.status}`)
  for (const name of ['content-type', 'x-request-id', 'allow', 'retry-after']) {
    if (real.headers[name] !== other.headers[name])
      found.push(`header ${name} is ${other.headers[name]}, not ${real.headers[name]}`)
  }
  const [left, right] = [normalise(bodyText(real)), normalise(bodyText(other))]
  if (left === right) return found
  if (left.includes('data: ')) compareStreams(left, right, { tolerance, found })
  else compareValues(parsed(left), parsed(right), '', { tolerance, found })
  return found
}

interface Comparison {
  readonly tolerance: Tolerance
  readonly found: string[]
}

function compareValues(real: unknown, other: unknown, path: string, comparison: Comparison): void {
  const { found, tolerance } = comparison
  const kind = kindOf(real)
  const key = path
    .replaceAll(/\[\d+\]/g, '')
    .split('.')
    .at(-1)!
  if (tolerance.made && inFirstEvent.has(key) && (real === null || other === null)) return
  if (kind !== kindOf(other)) return void found.push(`${path || 'body'} is ${show(other)}, not ${show(real)}`)
  if (kind === 'array')
    return compareLists(
      real as unknown[],
      other as unknown[],
      // An event has as many pieces of tool calls as the engine has ready.
      { path, free: tolerance.made && (made.has(key) || path.endsWith('.delta.tool_calls')) },
      comparison,
    )
  if (kind === 'object') {
    // Top logprobs of a completion have the tokens as keys.
    if (tolerance.made && key === 'top_logprobs' && !('token' in (real as object))) return
    const [names, others] = [namesOf(real), namesOf(other)]
    if (names.join() !== others.join())
      found.push(`${path || 'body'} has the fields ${others.join(' ')}, not ${names.join(' ')}`)
    for (const name of names)
      if (others.includes(name))
        compareValues((real as Fields)[name], (other as Fields)[name], `${path}.${name}`, comparison)
    return
  }
  const free = (tolerance.made && made.has(key)) || (tolerance.counted && counted.has(key))
  if (!free && real !== other) found.push(`${path || 'body'} is ${show(other)}, not ${show(real)}`)
}

function compareLists(
  real: readonly unknown[],
  other: readonly unknown[],
  at: { path: string; free: boolean },
  comparison: Comparison,
): void {
  if (at.free ? (real.length === 0) !== (other.length === 0) : real.length !== other.length) {
    comparison.found.push(`${at.path} has ${other.length} entries, not ${real.length}`)
  }
  for (let index = 0; index < Math.min(real.length, other.length, at.free ? 1 : 1000); index++) {
    compareValues(real[index], other[index], `${at.path}[${index}]`, comparison)
  }
}

/**
 * Consecutive events of one shape count as one: engines put one or several tokens into an event, and serve several
 * choices in any order. Their combined content is compared separately.
 */
function compareStreams(real: string, other: string, { tolerance, found }: Comparison): void {
  const [left, right] = [runs(real), runs(other)]
  const events: Comparison = { tolerance: { ...tolerance, made: true }, found }
  // All tokens may have arrived with the last event of their choice: an event with only some of them may be missing.
  for (const texts of ['content', 'text', 'tool_calls']) {
    const [here, there] = [left, right].map((list) => list.find((entry) => middle(entry) === texts))
    if (here !== undefined && there !== undefined) compareValues(here.data, there.data, `a ${texts} event `, events)
  }
  const [outline, otherOutline] = [left, right].map((list) =>
    collapsed(list.filter((entry) => middle(entry) === null)),
  ) as [StreamEvent[], StreamEvent[]]
  if (outline.length !== otherOutline.length)
    found.push(`the stream runs ${otherOutline.map(name).join(' → ')}, not ${outline.map(name).join(' → ')}`)
  for (let at = 0; at < Math.min(outline.length, otherOutline.length); at++) {
    if (outline[at]!.event !== otherOutline[at]!.event)
      found.push(`event ${at} is ${otherOutline[at]!.event || 'unnamed'}, not ${outline[at]!.event || 'unnamed'}`)
    compareValues(outline[at]!.data, otherOutline[at]!.data, `event ${at} `, events)
  }
  if (!tolerance.made) compareValues(spoken(real), spoken(other), 'together', { tolerance, found })
}

/** Content of an event between the first and last of a choice; null for all others. */
function middle({ data }: StreamEvent): string | null {
  const choice = (data as { choices?: { finish_reason?: unknown; text?: unknown; delta?: Fields }[] }).choices?.[0]
  if (choice === undefined || (choice.finish_reason ?? null) !== null || choice.delta?.['role'] !== undefined)
    return null
  if (choice.text !== undefined) return 'text'
  return choice.delta?.['tool_calls'] === undefined ? 'content' : 'tool_calls'
}

/** Complete text of each choice. */
function spoken(text: string): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const entry of dataOf(text)) {
    const { choices, type, delta } = entry as {
      choices?: { index: number; text?: string; delta?: { content?: string | null } }[]
      type?: string
      delta?: unknown
    }
    for (const choice of choices ?? [])
      texts[choice.index] = (texts[choice.index] ?? '') + (choice.text ?? choice.delta?.content ?? '')
    if (type === 'response.output_text.delta') texts['0'] = (texts['0'] ?? '') + String(delta)
    if (type === 'content_block_delta') texts['0'] = (texts['0'] ?? '') + ((delta as { text?: string }).text ?? '')
  }
  return texts
}

interface StreamEvent {
  readonly event: string
  readonly data: unknown
}

const name = ({ event, data }: StreamEvent): string =>
  event ||
  (typeof data === 'string'
    ? data
    : Object.keys((data as { choices?: { delta?: object }[] }).choices?.[0]?.delta ?? {}).join('+') || 'event')

function runs(text: string): StreamEvent[] {
  // A heartbeat is a comment, not an event.
  const events = text
    .split('\n\n')
    .slice(0, -1)
    .filter((event) => !event.split('\n').every((line) => line.startsWith(':')))
    .map((event) => ({
      event: /^event: (.*)$/m.exec(event)?.[1] ?? '',
      data: parsed(/^data: (.*)$/m.exec(event)?.[1] ?? ''),
    }))
  return collapsed(events)
}

function collapsed(events: readonly StreamEvent[]): StreamEvent[] {
  return events.filter((entry, at) => at === 0 || shape(entry) !== shape(events[at - 1]!))
}

/** Names and types. An event that ends a choice has another shape than one that does not. */
function shape({ event, data }: StreamEvent): string {
  const walk = (value: unknown): unknown => {
    const kind = kindOf(value)
    if (kind === 'array') return (value as unknown[]).length === 0 ? [] : [walk((value as unknown[])[0])]
    if (kind === 'object') return namesOf(value).map((key) => [key, walk((value as Fields)[key])])
    return kind
  }
  return `${event} ${JSON.stringify(walk(data))}`
}

type Fields = Readonly<Record<string, unknown>>

function namesOf(object: unknown): string[] {
  return Object.keys(object as object).filter((key) => !ignored.has(key))
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function show(value: unknown): string {
  return value === undefined ? 'absent' : JSON.stringify(value).slice(0, 160)
}
