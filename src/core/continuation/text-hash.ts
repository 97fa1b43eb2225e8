const FNV_OFFSET = 0x811c9dc5

const FNV_PRIME = 0x01000193

/** Hash of a text that grows (FNV-1a over UTF-16 units), with its length. */
export class TextHash {
  length = 0
  #hash = FNV_OFFSET

  get value(): number {
    return this.#hash >>> 0
  }

  add(text: string): void {
    let hash = this.#hash
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME)
    this.#hash = hash
    this.length += text.length
  }

  /** Adds a range of bytes, which are ASCII characters. */
  addAscii(bytes: Uint8Array, from: number, to: number): void {
    let hash = this.#hash
    for (let at = from; at < to; at++) hash = Math.imul(hash ^ bytes[at]!, FNV_PRIME)
    this.#hash = hash
    this.length += to - from
  }
}
