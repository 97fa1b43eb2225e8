import { chance } from '../src/simulator/replay/chance.ts'

const TAIL_SHARE = 0.1

/** Prompts of about one length that share prefixes as conversations do. */
export class Conversations {
  readonly #length: number
  readonly #kept: Uint32Array[] = []
  readonly #most: number
  readonly #random = chance(7)

  constructor(length: number, entries: number) {
    this.#length = length
    this.#most = Math.max(20, Math.ceil((1.5 * entries) / length))
  }

  next(): Uint32Array {
    const draw = this.#random()
    const old = this.#kept[Math.floor(this.#random() * this.#kept.length)]
    if (old === undefined || this.#kept.length < this.#most || draw < 0.1) return this.#keep(this.#grown(new Uint32Array(0), this.#length))
    if (draw < 0.2) return old
    if (draw < 0.4) return this.#keep(this.#grown(old.subarray(0, old.length & ~3 >> 1), this.#length))
    const tail = Math.max(1, Math.round(this.#length * TAIL_SHARE))
    return this.#keep(this.#grown(old.subarray(0, 2 * (this.#length - tail)), this.#length))
  }

  #keep(blocks: Uint32Array): Uint32Array {
    if (this.#kept.length < this.#most) this.#kept.push(blocks)
    else this.#kept[Math.floor(this.#random() * this.#most)] = blocks
    return blocks
  }

  #grown(prefix: Uint32Array, length: number): Uint32Array {
    const blocks = new Uint32Array(length * 2)
    blocks.set(prefix)
    for (let word = prefix.length; word < blocks.length; word++) blocks[word] = this.#random() * 2 ** 32
    return blocks
  }
}
