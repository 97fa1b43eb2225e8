/**
 * Writes one protobuf message from its end to its start, so that each length is known when it is written. Fields are
 * therefore written in reverse order; readers accept any order.
 */
import { WIRE } from './field-reader.ts'

const FIRST_BYTES = 4 * 1024

export class MessageWriter {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES)
  /** First byte that is written. */
  #at = this.#buffer.length

  /** Bytes written so far. */
  get length(): number {
    return this.#buffer.length - this.#at
  }

  /** Ends the message: returns a copy of its bytes, and starts an empty one. */
  take(): Buffer {
    const written = Buffer.allocUnsafe(this.length)
    this.#buffer.copy(written, 0, this.#at)
    this.#at = this.#buffer.length
    return written
  }

  raw(bytes: Uint8Array): void {
    this.#grow(bytes.length)
    this.#at -= bytes.length
    this.#buffer.set(bytes, this.#at)
  }

  byte(value: number): void {
    this.#grow(1)
    this.#buffer[--this.#at] = value
  }

  uint32(value: number): void {
    this.#grow(4)
    this.#at -= 4
    this.#buffer.writeUInt32BE(value, this.#at)
  }

  varint(value: number): void {
    this.#grow(10)
    let size = 1
    for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++
    this.#at -= size
    let at = this.#at
    let rest = value
    while (rest >= 128) {
      this.#buffer[at++] = (rest % 128) | 0x80
      rest = Math.floor(rest / 128)
    }
    this.#buffer[at] = rest
  }

  /** A boolean or an enumeration; the default 0 is left out. */
  number(field: number, value: number): void {
    if (value === 0) return
    this.varint(value)
    this.varint(field * 8 + WIRE.varint)
  }

  /** A double; the default 0 is left out. */
  double(field: number, value: number): void {
    if (value === 0) return
    this.#grow(8)
    this.#at -= 8
    this.#buffer.writeDoubleLE(value, this.#at)
    this.varint(field * 8 + WIRE.fixed64)
  }

  utf8(field: number, text: string): void {
    const size = Buffer.byteLength(text)
    this.#grow(size)
    this.#at -= size
    this.#buffer.write(text, this.#at, 'utf8')
    this.prefix(field, size)
  }

  latin1(field: number, text: string): void {
    this.#grow(text.length)
    this.#at -= text.length
    this.#buffer.write(text, this.#at, 'latin1')
    this.prefix(field, text.length)
  }

  /** The tag and the length of what was written since `length` was `before`. */
  nest(field: number, before: number): void {
    this.prefix(field, this.length - before)
  }

  /** The tag and the length of `size` bytes that were written, or that follow the message. */
  prefix(field: number, size: number): void {
    this.varint(size)
    this.varint(field * 8 + WIRE.bytes)
  }

  #grow(bytes: number): void {
    if (this.#at >= bytes) return
    const { length } = this
    const grown = Buffer.allocUnsafeSlow(2 * (this.#buffer.length + bytes))
    this.#buffer.copy(grown, grown.length - length, this.#at)
    this.#at = grown.length - length
    this.#buffer = grown
  }
}
