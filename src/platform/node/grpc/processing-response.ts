/**
 * Answers of an external processor to a proxy: `envoy.service.ext_proc.v3.ProcessingResponse`, each as a gRPC frame.
 * The bytes of a body are not copied: they follow the frame's first bytes.
 */
import { MessageWriter } from './message-writer.ts'
import type { MessageKind } from './processing-request.ts'

/** Changes of headers: `set` is a flat list of name, value and overwrites; `remove` is a list of names. */
export interface HeaderChanges {
  readonly set: readonly string[]
  readonly remove: readonly string[]
}

/** Dynamic metadata: one text below a namespace. */
interface AnswerMetadata {
  readonly namespace: string
  readonly name: string
  readonly text: string
}

interface ImmediateAnswer {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Uint8Array
  /** Short reason for the proxy's log. */
  readonly details: string
}

/** Field of each answer in `ProcessingResponse`. */
const ANSWER: Readonly<Record<MessageKind, number>> = {
  request_headers: 1,
  response_headers: 2,
  request_body: 3,
  response_body: 4,
  request_trailers: 5,
  response_trailers: 6,
}
const IMMEDIATE = 7
const DYNAMIC_METADATA = 8

/** Fields of `CommonResponse`. */
const COMMON = { headers: 2, body: 3 } as const

/** Field and value of `HeaderValueOption.append_action`: overwrite the header, or add it. */
const APPEND_ACTION = 3
const OVERWRITE_OR_ADD = 2

/** One writer: each frame is complete before the next one begins. */
const writer = new MessageWriter()

/** Answers headers. */
export function headersAnswer(
  kind: 'request_headers' | 'response_headers',
  changes: HeaderChanges | null,
  metadata: AnswerMetadata | null = null,
): Buffer {
  const before = writer.length
  if (changes !== null) writeChanges(COMMON.headers, changes)
  writer.nest(1, before)
  return frame(ANSWER[kind], before, metadata)
}

/** Answers trailers, without changes. */
export function trailersAnswer(kind: 'request_trailers' | 'response_trailers'): Buffer {
  return frame(ANSWER[kind], writer.length, null)
}

/** One piece of a body in full duplex. Write `size` bytes behind the returned ones. */
export function streamedBody(kind: 'request_body' | 'response_body', size: number, endOfStream: boolean): Buffer {
  // StreamedBodyResponse: body 1, end_of_stream 2. The body has to be last.
  if (size > 0) writer.prefix(1, size)
  writer.number(2, endOfStream ? 1 : 0)
  writer.prefix(3, writer.length + size)
  writer.prefix(COMMON.body, writer.length + size)
  writer.prefix(1, writer.length + size)
  writer.prefix(ANSWER[kind], writer.length + size)
  return framePrefix(size)
}

/**
 * Answers the message of a buffered or streamed body. Write `size` bytes behind the returned ones.
 * @param size bytes of the new body; null: the body stays
 */
export function bodyAnswer(
  kind: 'request_body' | 'response_body',
  size: number | null,
  changes: HeaderChanges | null = null,
  metadata: AnswerMetadata | null = null,
): Buffer {
  if (size === null) {
    const before = writer.length
    if (changes !== null) writeChanges(COMMON.headers, changes)
    writer.nest(1, before)
    return frame(ANSWER[kind], before, metadata)
  }
  // BodyMutation: body 1, clear_body 2.
  if (size > 0) writer.prefix(1, size)
  else writer.number(2, 1)
  writer.prefix(COMMON.body, writer.length + size)
  if (changes !== null) writeChanges(COMMON.headers, changes)
  writer.prefix(1, writer.length + size)
  writer.prefix(ANSWER[kind], writer.length + size)
  if (metadata !== null) writeMetadata(metadata)
  return framePrefix(size)
}

/** A response that the proxy sends to the client itself. */
export function immediateAnswer({ status, headers, body, details }: ImmediateAnswer): Buffer {
  const before = writer.length
  if (details !== '') writer.utf8(5, details)
  if (body.length > 0) {
    writer.raw(body)
    writer.prefix(3, body.length)
  }
  if (headers.length > 0) writeChanges(2, { set: headers, remove: [] })
  const statusBefore = writer.length
  writer.number(1, status)
  writer.nest(1, statusBefore)
  return frame(IMMEDIATE, before, null)
}

function frame(field: number, before: number, metadata: AnswerMetadata | null): Buffer {
  writer.nest(field, before)
  if (metadata !== null) writeMetadata(metadata)
  return framePrefix(0)
}

/** The five bytes of a gRPC frame: uncompressed, length. `follows`: bytes of the message that are written later. */
function framePrefix(follows: number): Buffer {
  writer.uint32(writer.length + follows)
  writer.byte(0)
  return writer.take()
}

function writeChanges(field: number, { set, remove }: HeaderChanges): void {
  const before = writer.length
  for (let at = remove.length - 1; at >= 0; at--) writer.latin1(2, remove[at]!)
  for (let at = set.length - 2; at >= 0; at -= 2) writeHeader(set[at]!, set[at + 1]!)
  writer.nest(field, before)
}

/** `HeaderValueOption`: header 1 (key 1, raw_value 3), append_action 3. */
function writeHeader(name: string, value: string): void {
  const before = writer.length
  writer.number(APPEND_ACTION, OVERWRITE_OR_ADD)
  const header = writer.length
  writer.latin1(3, value)
  writer.latin1(1, name)
  writer.nest(1, header)
  writer.nest(1, before)
}

/** `Struct` { namespace: { name: text } }; an entry has key 1 and value 2, a value string 3 and struct 5. */
function writeMetadata({ namespace, name, text }: AnswerMetadata): void {
  const before = writer.length
  writer.utf8(3, text)
  writeEntry(name, before)
  writer.nest(5, before)
  writeEntry(namespace, before)
  writer.nest(DYNAMIC_METADATA, before)
}

/** Makes a value that was written since `before` an entry of a struct. */
function writeEntry(key: string, before: number): void {
  writer.nest(2, before)
  writer.utf8(1, key)
  writer.nest(1, before)
}
