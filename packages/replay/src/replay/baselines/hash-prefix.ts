import { hashPair } from '../../../../../src/core/routing/placement-hash.ts'
import type { RouterKind } from '../router.ts'

const HASHED_BLOCKS = 2

/** Routes prompts with equal prefixes to one engine, independent of load: the stateless baseline. */
export const hashPrefix: RouterKind = {
  name: 'hash_prefix',
  doc: 'Hash of the first two blocks, modulo the engines.',
  source: 'a plain load balancer with a prompt hash',
  create: ({ engines }) => ({
    name: 'hash_prefix',
    route({ blocks, index }) {
      const key = blocks.length === 0 ? hashPair(index, 0) : hashPair(blocks[0]!, blocks[2 * (HASHED_BLOCKS - 1)] ?? 0)
      return { engine: key % engines.length }
    },
    firstToken() {},
    ended() {},
  }),
}
