/** Protobuf for test clients, written apart from the gateway's codec: a message is a list of fields. */

export type FieldValue = number | boolean | string | Uint8Array | FieldList

/** Number and value of each field; a nested list is a message. */
export type FieldList = readonly (readonly [field: number, value: FieldValue])[]

const varint = (value: number): number[] => {
  const bytes: number[] = []
  let rest = value
  while (rest >= 128) {
    bytes.push((rest % 128) | 128)
    rest = Math.floor(rest / 128)
  }
  return [...bytes, rest]
}

const isList = (value: FieldValue): value is FieldList => Array.isArray(value)

/** Bytes of a message. */
export function message(fields: FieldList): Buffer {
  const pieces: Uint8Array[] = []
  for (const [field, value] of fields) {
    if (typeof value === 'number' || typeof value === 'boolean') {
      pieces.push(Uint8Array.from([...varint(field * 8), ...varint(Number(value))]))
      continue
    }
    const bytes = isList(value) ? message(value) : typeof value === 'string' ? Buffer.from(value) : value
    pieces.push(Uint8Array.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes)
  }
  return Buffer.concat(pieces)
}

/** A field that was read: a number, or bytes. */
export type ReadField = number | Buffer

/** Fields of a message by number, in order. Throws for what this reader does not need. */
export function fieldsOf(bytes: Buffer): ReadonlyMap<number, readonly ReadField[]> {
  const fields = new Map<number, ReadField[]>()
  let at = 0
  const number = (): number => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = number()
    const field = Math.floor(tag / 8)
    if (tag % 8 !== 0 && tag % 8 !== 2) throw new Error(`field ${field} has wire type ${tag % 8}`)
    let value: ReadField = number()
    if (tag % 8 === 2) {
      const to = at + value
      value = bytes.subarray(at, to)
      at = to
    }
    fields.set(field, [...(fields.get(field) ?? []), value])
  }
  return fields
}

/** Message in a field. null: it is absent. */
export function nested(
  fields: ReadonlyMap<number, readonly ReadField[]>,
  number: number,
): ReadonlyMap<number, readonly ReadField[]> | null {
  const value = fields.get(number)?.at(-1)
  return value === undefined || typeof value === 'number' ? null : fieldsOf(value)
}

/** Text in a field. '': it is absent. */
export function textIn(fields: ReadonlyMap<number, readonly ReadField[]>, number: number): string {
  return bytesIn(fields, number).toString()
}

/** Bytes in a field; empty: it is absent. */
export function bytesIn(fields: ReadonlyMap<number, readonly ReadField[]>, number: number): Buffer {
  const value = fields.get(number)?.at(-1)
  return typeof value === 'object' ? value : Buffer.alloc(0)
}
