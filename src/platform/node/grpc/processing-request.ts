/** Messages of a proxy to an external processor: `envoy.service.ext_proc.v3.ProcessingRequest`. */
import { FieldReader, MalformedMessage, type MessageRange } from './field-reader.ts'
import { PREFIX_BYTES } from './frame-reader.ts'
import { readStruct, type StructFields } from './struct-value.ts'

/** Values of `ProcessingMode.BodySendMode`. */
export const BODY_MODE = { none: 0, streamed: 1, buffered: 2, bufferedPartial: 3, fullDuplex: 4, grpc: 5 } as const

const NAMES = [
  'request_headers',
  'response_headers',
  'request_body',
  'response_body',
  'request_trailers',
  'response_trailers',
] as const

export type MessageKind = (typeof NAMES)[number]

interface ProtocolConfig {
  readonly requestBodyMode: number
  readonly responseBodyMode: number
}

export interface ProcessingRequest {
  readonly kind: MessageKind
  /** Headers or trailers: flat list of name, value. Empty for a body. */
  readonly headers: readonly string[]
  /** Bytes of a body, in the memory of the message. */
  readonly body: Buffer
  /** No body follows these headers, or no more bytes follow this body. */
  readonly endOfStream: boolean
  /** Of the first message. null: the proxy sent none. */
  readonly protocolConfig: ProtocolConfig | null
  /** `metadata_context`, unread: each message has it. null: there is none. */
  readonly metadata: MessageRange | null
  /** The proxy ignores all answers. */
  readonly observes: boolean
}

/** First of the fields that `NAMES` lists; the others follow in this order. */
const FIRST_KIND = 2
const METADATA = 8
const OBSERVABILITY = 10
const PROTOCOL_CONFIG = 11

const NO_BYTES: Buffer = Buffer.alloc(0)

interface Content {
  headers: readonly string[]
  body: Buffer
  endOfStream: boolean
}

const NO_CONTENT: Content = { headers: [], body: NO_BYTES, endOfStream: false }

/** Memory in which there is this message of a call and nothing else. null: there is more. */
export function memoryOf(message: Buffer): Buffer | null {
  const { buffer, byteOffset, length } = message
  const isAlone = byteOffset === PREFIX_BYTES && byteOffset + length === buffer.byteLength
  return isAlone ? Buffer.from(buffer) : null
}

/** Throws a MalformedMessage. Unknown fields are skipped. */
export function readProcessingRequest(bytes: Buffer): ProcessingRequest {
  const reader = new FieldReader({ bytes, from: 0, to: bytes.length })
  let kind: MessageKind | undefined
  let content = NO_CONTENT
  let protocolConfig: ProtocolConfig | null = null
  let metadata: MessageRange | null = null
  let observes = false
  while (reader.next()) {
    const { field } = reader
    const named = NAMES[field - FIRST_KIND]
    if (named !== undefined) {
      kind = named
      content = named.endsWith('_body') ? bodyOf(reader.range()) : headersOf(reader.range())
    } else if (field === METADATA) metadata = reader.range()
    else if (field === OBSERVABILITY) observes = reader.flag()
    else if (field === PROTOCOL_CONFIG) protocolConfig = configOf(reader.range())
    else reader.skip()
  }
  if (kind === undefined) throw new MalformedMessage('the message has no request')
  return { kind, ...content, protocolConfig, metadata, observes }
}

/** Headers (field 1: the map, field 3: the end) or trailers. */
function headersOf(range: MessageRange): Content {
  const reader = new FieldReader(range)
  const headers: string[] = []
  let endOfStream = false
  while (reader.next()) {
    if (reader.field === 1) readHeaderMap(reader.range(), headers)
    else if (reader.field === 3) endOfStream = reader.flag()
    else reader.skip()
  }
  return { headers, body: NO_BYTES, endOfStream }
}

function readHeaderMap(range: MessageRange, headers: string[]): void {
  const reader = new FieldReader(range)
  while (reader.next()) {
    if (reader.field === 1) readHeader(reader.range(), headers)
    else reader.skip()
  }
}

function readHeader(range: MessageRange, headers: string[]): void {
  const reader = new FieldReader(range)
  let name = ''
  let value = ''
  let raw: string | null = null
  while (reader.next()) {
    if (reader.field === 1) name = reader.latin1()
    else if (reader.field === 2) value = reader.latin1()
    else if (reader.field === 3) raw = reader.latin1()
    else reader.skip()
  }
  // Envoy fills `raw_value`; others may fill `value`.
  headers.push(name.toLowerCase(), raw ?? value)
}

function bodyOf(range: MessageRange): Content {
  const reader = new FieldReader(range)
  let body: Buffer = NO_BYTES
  let endOfStream = false
  while (reader.next()) {
    if (reader.field === 1) body = reader.slice()
    else if (reader.field === 2) endOfStream = reader.flag()
    else reader.skip()
  }
  return { headers: NO_CONTENT.headers, body, endOfStream }
}

function configOf(range: MessageRange): ProtocolConfig {
  const reader = new FieldReader(range)
  let requestBodyMode: number = BODY_MODE.none
  let responseBodyMode: number = BODY_MODE.none
  while (reader.next()) {
    if (reader.field === 1) requestBodyMode = reader.choice()
    else if (reader.field === 2) responseBodyMode = reader.choice()
    else reader.skip()
  }
  return { requestBodyMode, responseBodyMode }
}

/** Reads one namespace of `metadata_context`. null: it is absent. Throws a MalformedMessage. */
export function metadataOf(range: MessageRange | null, namespace: string): StructFields | null {
  if (range === null) return null
  const reader = new FieldReader(range)
  let found: StructFields | null = null
  while (reader.next()) {
    if (reader.field !== 1) reader.skip()
    else found = namedEntry(reader.range(), namespace) ?? found
  }
  return found
}

/** Entry of the map `filter_metadata`, if it has this name. */
function namedEntry(range: MessageRange, name: string): StructFields | null {
  const reader = new FieldReader(range)
  let isNamed = false
  let value: MessageRange | null = null
  while (reader.next()) {
    if (reader.field === 1) isNamed = reader.utf8() === name
    else if (reader.field === 2) value = reader.range()
    else reader.skip()
  }
  if (!isNamed) return null
  return value === null ? {} : readStruct(value)
}
