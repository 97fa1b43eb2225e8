/** Conversations as prompts, and a pool for them. */
import type { Admission } from '../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import { readAdmission, readEngine } from '../../src/core/contract/decode.ts'
import { defaultPool } from '../replay/src/replay/default-pool.ts'
import { chance } from '../replay/src/replay/chance.ts'

const TAIL_SHARE = 0.1

/** Prompts of about one length that share prefixes as conversations do. */
export class Conversations {
  readonly #length: number
  readonly #kept: Uint32Array[] = []
  readonly #max: number
  readonly #random = chance(7)

  constructor(length: number, entries: number) {
    this.#length = length
    this.#max = Math.max(20, Math.ceil((1.5 * entries) / length))
  }

  next(): Uint32Array {
    const draw = this.#random()
    const old = this.#kept[Math.floor(this.#random() * this.#kept.length)]
    if (old === undefined || this.#kept.length < this.#max || draw < 0.1)
      return this.#keep(this.#grown(new Uint32Array(0), this.#length))
    if (draw < 0.2) return old
    if (draw < 0.4) return this.#keep(this.#grown(old.subarray(0, old.length & (~3 >> 1)), this.#length))
    const tail = Math.max(1, Math.round(this.#length * TAIL_SHARE))
    return this.#keep(this.#grown(old.subarray(0, 2 * (this.#length - tail)), this.#length))
  }

  #keep(blocks: Uint32Array): Uint32Array {
    if (this.#kept.length < this.#max) this.#kept.push(blocks)
    else this.#kept[Math.floor(this.#random() * this.#max)] = blocks
    return blocks
  }

  #grown(prefix: Uint32Array, length: number): Uint32Array {
    const blocks = new Uint32Array(length * 2)
    blocks.set(prefix)
    for (let word = prefix.length; word < blocks.length; word++) blocks[word] = this.#random() * 2 ** 32
    return blocks
  }
}

/** Tokens of a block. */
export const BLOCK_TOKENS = 64

let lastId = 0

/** Admission of one of them, with a few tokens more than its blocks. */
export function admissionOf(blocks: Uint32Array): Admission {
  return readAdmission({
    id: `request-${++lastId}`,
    configVersion: 1,
    model: 'm',
    promptTokens: (blocks.length / 2) * BLOCK_TOKENS + 7,
    tokenSource: 'exact',
    blocks,
    tenant: 't',
  })
}

/** Engines with room for all of them, and leases that never expire. */
export function poolOf(engines: number, indexEntries: number, policy: string): PoolConfig {
  return {
    ...defaultPool(),
    cluster: 'bench',
    pool: 'm',
    blockTokens: BLOCK_TOKENS,
    policy: { name: policy, options: {} },
    leaseMs: 1e9,
    maxWaiting: Infinity,
    indexEntries,
    engines: Array.from({ length: engines }, (_, at) =>
      readEngine({ id: `engine-${at}`, cacheBlocks: 1_000_000, rttMs: 1 }),
    ),
  }
}
