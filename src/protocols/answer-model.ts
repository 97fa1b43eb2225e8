/** Puts another name into the `model` of an answer, where its protocol has it. All other bytes stay as they are. */
import { type Member, scanObjectMembers, skipBlank } from './object-members.ts'
import type { Protocol } from './protocol.ts'

const MODEL = 'model'
const QUOTE = 34
const DATA = new TextEncoder().encode('data:')
const LF = 10

/** Range of bytes to replace. */
interface Range {
  readonly from: number
  readonly to: number
}

/** A whole answer that is no stream. */
export function renamedAnswer(json: Uint8Array, name: Uint8Array): readonly Uint8Array[] {
  const range = modelIn(json, skipBlank(json, 0))
  return range === null ? [json] : replaced(json, range, name)
}

/** One event of a stream, with the blank line at its end. */
export function renamedEvent(
  event: Uint8Array,
  { streamedAnswer }: Pick<Protocol, 'streamedAnswer'>,
  name: Uint8Array,
): readonly Uint8Array[] {
  const at = dataAt(event)
  const range = at < 0 ? null : streamedAnswer === null ? modelIn(event, at) : modelWithin(event, at, streamedAnswer)
  return range === null ? [event] : replaced(event, range, name)
}

/** Start of the first line of data. -1: there is none. */
function dataAt(event: Uint8Array): number {
  for (let line = 0; line >= 0 && line < event.length;) {
    if (DATA.every((byte, at) => event[line + at] === byte)) return skipBlank(event, line + DATA.length)
    line = event.indexOf(LF, line) + 1
    if (line === 0) return -1
  }
  return -1
}

function modelWithin(json: Uint8Array, at: number, member: string): Range | null {
  const inner = memberOf(json, at, member)
  return inner === null ? null : modelIn(json, inner.valueAt)
}

function modelIn(json: Uint8Array, at: number): Range | null {
  const found = memberOf(json, at, MODEL)
  // An answer may have null, or no text.
  return found === null || json[found.valueAt] !== QUOTE ? null : { from: found.valueAt, to: found.valueEnd }
}

/** Member of the object that starts at `at`. null: no object is there, or it has no such member. */
function memberOf(json: Uint8Array, at: number, name: string): Member | null {
  const last = scanObjectMembers(json, at, ({ key }) => key === name)?.at(-1)
  return last?.key === name ? last : null
}

const replaced = (bytes: Uint8Array, { from, to }: Range, name: Uint8Array): readonly Uint8Array[] => [
  bytes.subarray(0, from),
  name,
  bytes.subarray(to),
]
