/** `google.protobuf.Struct`: JSON in protobuf. */
import { FieldReader, MalformedMessage, type MessageRange } from './field-reader.ts'

export type StructValue = null | number | string | boolean | readonly StructValue[] | StructFields

export interface StructFields {
  readonly [name: string]: StructValue
}

/** Most levels of lists and objects. Metadata of proxies has two. */
const MAX_DEPTH = 16

const VALUE = { nothing: 1, number: 2, text: 3, flag: 4, fields: 5, list: 6 } as const

/** Reads an object. Names are own properties, whatever they are. */
export function readStruct(range: MessageRange, depth = MAX_DEPTH): StructFields {
  const entries: [string, StructValue][] = []
  const reader = new FieldReader(range)
  while (reader.next()) {
    if (reader.field === 1) entries.push(entryOf(reader.range(), depth))
    else reader.skip()
  }
  return Object.fromEntries(entries)
}

function entryOf(range: MessageRange, depth: number): [string, StructValue] {
  const reader = new FieldReader(range)
  let name = ''
  let value: StructValue = null
  while (reader.next()) {
    if (reader.field === 1) name = reader.utf8()
    else if (reader.field === 2) value = valueOf(reader.range(), depth)
    else reader.skip()
  }
  return [name, value]
}

function valueOf(range: MessageRange, depth: number): StructValue {
  if (depth === 0) throw new MalformedMessage(`metadata has more than ${MAX_DEPTH} levels`)
  const reader = new FieldReader(range)
  let value: StructValue = null
  while (reader.next()) {
    if (reader.field === VALUE.number) value = reader.double()
    else if (reader.field === VALUE.text) value = reader.utf8()
    else if (reader.field === VALUE.flag) value = reader.flag()
    else if (reader.field === VALUE.fields) value = readStruct(reader.range(), depth - 1)
    else if (reader.field === VALUE.list) value = listOf(reader.range(), depth - 1)
    else reader.skip()
  }
  return value
}

function listOf(range: MessageRange, depth: number): StructValue[] {
  const reader = new FieldReader(range)
  const values: StructValue[] = []
  while (reader.next()) {
    if (reader.field === 1) values.push(valueOf(reader.range(), depth))
    else reader.skip()
  }
  return values
}
