/** Messages of KEDA's external scaler, `externalscaler.ExternalScaler`. */
import { FieldReader, type MessageRange } from './field-reader.ts'
import { MessageWriter } from './message-writer.ts'

/** What a ScaledObject says of itself. */
export interface ScaledObject {
  /** `metadata` of its trigger. */
  readonly metadata: ReadonlyMap<string, string>
}

/** Most entries of `metadata` that are kept. */
const MAX_ENTRIES = 64

const writer = new MessageWriter()

/** Reads a `ScaledObjectRef`. Throws a MalformedMessage. */
export function readScaledObject(bytes: Buffer): ScaledObject {
  return objectIn({ bytes, from: 0, to: bytes.length })
}

/** Reads a `GetMetricsRequest`. Throws a MalformedMessage. */
export function readMetricsRequest(bytes: Buffer): ScaledObject {
  const reader = new FieldReader({ bytes, from: 0, to: bytes.length })
  let object: ScaledObject = { metadata: new Map() }
  while (reader.next()) {
    if (reader.field === 1) object = objectIn(reader.range())
    else reader.skip()
  }
  return object
}

function objectIn(range: MessageRange): ScaledObject {
  const reader = new FieldReader(range)
  const metadata = new Map<string, string>()
  while (reader.next()) {
    if (reader.field !== 3) {
      reader.skip()
      continue
    }
    const [key, value] = entryOf(reader.range())
    if (metadata.size < MAX_ENTRIES) metadata.set(key, value)
  }
  return { metadata }
}

function entryOf(range: MessageRange): readonly [string, string] {
  const reader = new FieldReader(range)
  let key = ''
  let value = ''
  while (reader.next()) {
    if (reader.field === 1) key = reader.utf8()
    else if (reader.field === 2) value = reader.utf8()
    else reader.skip()
  }
  return [key, value]
}

/** `IsActiveResponse` with its prefix. */
export function activeFrame(isActive: boolean): Buffer {
  writer.number(1, isActive ? 1 : 0)
  return framed()
}

/**
 * `GetMetricSpecResponse` or `GetMetricsResponse` with its prefix, which have the same fields: one metric, with its
 * target for each replica or its value. The whole number is for KEDA before 2.14.
 */
export function metricFrame(name: string, value: number): Buffer {
  writer.double(3, value)
  writer.number(2, Math.ceil(value))
  writer.utf8(1, name)
  writer.nest(1, 0)
  return framed()
}

function framed(): Buffer {
  writer.uint32(writer.length)
  writer.byte(0)
  return writer.take()
}
