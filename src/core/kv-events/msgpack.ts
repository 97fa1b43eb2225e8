/**
 * MessagePack decoder for event batches, bounds-checked: input that is truncated, nested too deeply, or longer than
 * its bytes is an error and allocates nothing. Integers beyond 2^53 keep all bits.
 * https://github.com/msgpack/msgpack/blob/master/spec.md
 */

/** 64-bit integer beyond the exact range of numbers. */
export interface WideInteger {
  readonly hi: number
  readonly lo: number
}

export type Msgpack =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | WideInteger
  | readonly Msgpack[]
  | ReadonlyMap<string, Msgpack>

/** Invalid MessagePack. The message contains no content. */
export class MsgpackError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MsgpackError'
  }
}

const MAX_DEPTH = 16
const TWO_32 = 4_294_967_296

/** Decodes exactly one value. Throws a MsgpackError. */
export function readMsgpack(bytes: Uint8Array): Msgpack {
  const reader = new Reader(bytes)
  const value = reader.value(0)
  if (reader.left !== 0) throw new MsgpackError(`${reader.left} bytes follow the value`)
  return value
}

class Reader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  value(depth: number): Msgpack {
    const type = this.#uint(1)
    if (type < 0x80) return type
    if (type < 0x90) return this.#map(type & 0x0f, depth)
    if (type < 0xa0) return this.#array(type & 0x0f, depth)
    if (type < 0xc0) return this.#text(type & 0x1f)
    if (type >= 0xe0) return type - 0x100
    return this.#typed(type, depth)
  }

  #typed(type: number, depth: number): Msgpack {
    switch (type) {
      case 0xc0:
        return null
      case 0xc2:
      case 0xc3:
        return type === 0xc3
      case 0xca:
        return this.#view.getFloat32(this.#skip(4))
      case 0xcb:
        return this.#view.getFloat64(this.#skip(8))
      case 0xcf:
      case 0xd3:
        return this.#wide(type === 0xd3)
      case 0xd0:
        return this.#view.getInt8(this.#skip(1))
      case 0xd1:
        return this.#view.getInt16(this.#skip(2))
      case 0xd2:
        return this.#view.getInt32(this.#skip(4))
    }
    if (type >= 0xc4 && type <= 0xc6) return this.#blob(this.#uint(1 << (type - 0xc4)))
    if (type >= 0xcc && type <= 0xce) return this.#uint(1 << (type - 0xcc))
    if (type >= 0xd9 && type <= 0xdb) return this.#text(this.#uint(1 << (type - 0xd9)))
    if (type === 0xdc || type === 0xdd) return this.#array(this.#uint(type === 0xdc ? 2 : 4), depth)
    if (type === 0xde || type === 0xdf) return this.#map(this.#uint(type === 0xde ? 2 : 4), depth)
    throw new MsgpackError(`the type 0x${type.toString(16)} is not allowed in an event batch`)
  }

  #array(length: number, depth: number): Msgpack[] {
    this.#enter(length, depth)
    const list: Msgpack[] = []
    for (let index = 0; index < length; index += 1) list.push(this.value(depth + 1))
    return list
  }

  /** Decodes a map; keys that are not strings are dropped with their values. */
  #map(length: number, depth: number): Map<string, Msgpack> {
    this.#enter(length * 2, depth)
    const map = new Map<string, Msgpack>()
    for (let index = 0; index < length; index += 1) {
      const key = this.value(depth + 1)
      const value = this.value(depth + 1)
      if (typeof key === 'string') map.set(key, value)
    }
    return map
  }

  /** Checks a length before allocation: each value takes at least one byte. */
  #enter(values: number, depth: number): void {
    if (depth >= MAX_DEPTH) throw new MsgpackError(`nested deeper than ${MAX_DEPTH}`)
    if (values > this.left) throw new MsgpackError(`${values} values are announced and ${this.left} bytes are left`)
  }

  #text(length: number): string {
    return decodeUtf8(this.#blob(length))
  }

  #blob(length: number): Uint8Array {
    const from = this.#skip(length)
    return this.#bytes.subarray(from, from + length)
  }

  #wide(signed: boolean): number | WideInteger {
    const at = this.#skip(8)
    const hi = this.#view.getUint32(at)
    const lo = this.#view.getUint32(at + 4)
    const value = (signed ? hi | 0 : hi) * TWO_32 + lo
    return Number.isSafeInteger(value) ? value : { hi, lo }
  }

  #uint(size: number): number {
    const at = this.#skip(size)
    return size === 1 ? this.#bytes[at]! : size === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at)
  }

  #skip(size: number): number {
    if (size > this.left) throw new MsgpackError(`${size} bytes are needed and ${this.left} are left`)
    const at = this.#at
    this.#at += size
    return at
  }
}

/** Decodes a string; invalid UTF-8 becomes one character per byte. */
function decodeUtf8(bytes: Uint8Array): string {
  let text = ''
  let escaped = ''
  let isAscii = true
  for (const byte of bytes) {
    isAscii &&= byte < 0x80
    text += String.fromCharCode(byte)
  }
  if (isAscii) return text
  for (const byte of bytes) escaped += `%${byte < 16 ? '0' : ''}${byte.toString(16)}`
  try {
    return decodeURIComponent(escaped)
  } catch {
    return text
  }
}
