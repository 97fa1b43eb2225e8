/** A line holds some words, and the largest of them the blocks of one prompt. */
const LONGEST_LINE_BYTES = 64 * 2 ** 20

/** Bytes in, whole lines out. */
export class Lines {
  #parts: Buffer[] = []
  #bytes = 0

  take(chunk: Buffer): string[] {
    const last = chunk.lastIndexOf(10)
    if (last < 0) {
      this.#keep(chunk)
      return []
    }
    const whole = Buffer.concat([...this.#parts, chunk.subarray(0, last)]).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    this.#keep(chunk.subarray(last + 1))
    return whole.split('\n')
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return
    this.#bytes += rest.length
    if (this.#bytes > LONGEST_LINE_BYTES) throw new Error('a line without an end')
    this.#parts.push(rest)
  }
}
