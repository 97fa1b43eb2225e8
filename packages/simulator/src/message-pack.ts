/** Encoder of MessagePack. */

/** A float that always takes 8 bytes, as in Python. */
interface Float {
  readonly float: number
}

export interface Wide {
  readonly hi: number
  readonly lo: number
  /** Encoded as a signed integer, as Python does for negative numbers. Absent: unsigned. */
  readonly signed?: boolean
}

export type Packable =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | Float
  | Wide
  | readonly Packable[]
  | { readonly map: readonly (readonly [string, Packable])[] }

export function pack(value: Packable): Uint8Array {
  const bytes: number[] = []
  put(bytes, value)
  return Uint8Array.from(bytes)
}

function put(to: number[], value: Packable): void {
  if (value === null) to.push(0xc0)
  else if (typeof value === 'boolean') to.push(value ? 0xc3 : 0xc2)
  else if (typeof value === 'number') putInteger(to, value)
  else if (typeof value === 'string') putText(to, value)
  else if (value instanceof Uint8Array) {
    putHead(to, value.length, [0xc4, 0xc5, 0xc6])
    to.push(...value)
  } else if (isList(value)) {
    if (value.length < 16) to.push(0x90 | value.length)
    else putHead(to, value.length, [0xdc, 0xdc, 0xdd])
    for (const inner of value) put(to, inner)
  } else if ('float' in value) {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setFloat64(0, value.float)
    to.push(0xcb, ...bytes)
  } else if ('hi' in value) {
    to.push(value.signed === true ? 0xd3 : 0xcf)
    bigEndian(to, value.hi, 4)
    bigEndian(to, value.lo, 4)
  } else {
    if (value.map.length < 16) to.push(0x80 | value.map.length)
    else putHead(to, value.map.length, [0xde, 0xde, 0xdf])
    for (const [key, inner] of value.map) {
      putText(to, key)
      put(to, inner)
    }
  }
}

const isList = (value: Packable): value is readonly Packable[] => Array.isArray(value)

/** Encodes an integer in the fewest bytes. */
function putInteger(to: number[], value: number): void {
  if (value < 0) {
    to.push(0xd2)
    bigEndian(to, value >>> 0, 4)
  } else if (value < 0x80) to.push(value)
  else if (value > 0xffff_ffff) put(to, { hi: Math.floor(value / 0x1_0000_0000), lo: value >>> 0 })
  else putHead(to, value, [0xcc, 0xcd, 0xce])
}

function putText(to: number[], text: string): void {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length < 32) to.push(0xa0 | bytes.length)
  else putHead(to, bytes.length, [0xd9, 0xda, 0xdb])
  to.push(...bytes)
}

/** Writes the first of three length types that fits: one, two or four bytes. Two of them may be equal. */
function putHead(to: number[], value: number, [one, two, four]: readonly [number, number, number]): void {
  const size = value < 0x100 && one !== two ? 1 : value < 0x1_0000 ? 2 : 4
  to.push(size === 1 ? one : size === 2 ? two : four)
  bigEndian(to, value, size)
}

function bigEndian(to: number[], value: number, size: number): void {
  for (let shift = (size - 1) * 8; shift >= 0; shift -= 8) to.push((value >>> shift) & 0xff)
}
