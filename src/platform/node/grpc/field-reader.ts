/** Reads the fields of one protobuf message in place. Throws a MalformedMessage; never reads outside its range. */

/** Bytes that are no message of the expected kind. The text has no content of the message. */
export class MalformedMessage extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'MalformedMessage'
  }
}

export const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

/** Range of a nested message. Its bytes belong to the read they came with. */
export interface MessageRange {
  readonly bytes: Buffer
  readonly from: number
  readonly to: number
}

const MAX_FIELD = 536_870_911

export class FieldReader {
  readonly #bytes: Buffer
  readonly #to: number
  #at: number
  /** Number and wire type of the field that was found last. */
  field = 0
  wire = 0

  constructor({ bytes, from, to }: MessageRange) {
    this.#bytes = bytes
    this.#at = from
    this.#to = to
  }

  /** Finds the next field. false: the message has ended. Read or skip each field before the next one. */
  next(): boolean {
    if (this.#at === this.#to) return false
    const tag = this.varint()
    this.field = Math.floor(tag / 8)
    this.wire = tag % 8
    if (this.field < 1 || this.field > MAX_FIELD) throw new MalformedMessage('a field has a number out of range')
    return true
  }

  /** Value of a varint field, or of a tag. Numbers beyond 2^53 lose precision: no field here needs them. */
  varint(): number {
    let value = 0
    let factor = 1
    for (let read = 0; read < 10; read++) {
      if (this.#at >= this.#to) throw new MalformedMessage('a number ends early')
      const byte = this.#bytes[this.#at++]!
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 128
    }
    throw new MalformedMessage('a number is longer than 10 bytes')
  }

  /** Value of a boolean field. */
  flag(): boolean {
    this.#expect(WIRE.varint)
    return this.varint() !== 0
  }

  /** Value of an enumeration. */
  choice(): number {
    this.#expect(WIRE.varint)
    return this.varint()
  }

  double(): number {
    this.#expect(WIRE.fixed64)
    return this.#bytes.readDoubleLE(this.#advance(8))
  }

  /** Range of a nested message, text or bytes. */
  range(): MessageRange {
    this.#expect(WIRE.bytes)
    const length = this.varint()
    const from = this.#advance(length)
    return { bytes: this.#bytes, from, to: from + length }
  }

  slice(): Buffer {
    const { bytes, from, to } = this.range()
    return bytes.subarray(from, to)
  }

  utf8(): string {
    const { bytes, from, to } = this.range()
    return bytes.toString('utf8', from, to)
  }

  latin1(): string {
    const { bytes, from, to } = this.range()
    return bytes.toString('latin1', from, to)
  }

  /** Passes over a field of any number. */
  skip(): void {
    if (this.wire === WIRE.varint) this.varint()
    else if (this.wire === WIRE.fixed64) this.#advance(8)
    else if (this.wire === WIRE.bytes) this.#advance(this.varint())
    else if (this.wire === WIRE.fixed32) this.#advance(4)
    else throw new MalformedMessage(`a field has the wire type ${this.wire}`)
  }

  #expect(wire: number): void {
    if (this.wire !== wire) throw new MalformedMessage(`the field ${this.field} has the wire type ${this.wire}`)
  }

  /** Position before the advance. */
  #advance(length: number): number {
    const from = this.#at
    if (length > this.#to - from) throw new MalformedMessage('a field is longer than its message')
    this.#at += length
    return from
  }
}
