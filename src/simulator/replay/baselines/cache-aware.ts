import type { RouterKind } from '../router.ts'
import { indexOfLeast, InFlight, SentBlocks } from './tables.ts'

/** The command line's defaults. */
const CACHE_THRESHOLD = 0.3
const BALANCE_ABS = 64
const BALANCE_REL = 1.5
const EVICT_EVERY_MS = 120_000
const MAX_TREE_CHARS = 2 ** 26
const CHARS_PER_TOKEN = 4

/**
 * `cache_aware` of vllm-router (0.1.17) and the SGLang gateway, with the defaults of their command lines: an approximate
 * tree for each engine of what was sent there; matches of more than 0.3 follow the tree, other requests go to the least
 * loaded (vllm-router; SGLang: to the smallest tree); when requests in flight are out of balance (64 and 1.5 times),
 * the least loaded gets them all.
 */
export const cacheAware: RouterKind = {
  name: 'cache_aware',
  doc: 'Longest match in a tree of what was sent, above 0.3; else, or out of balance by 64 and x1.5, fewest in flight.',
  source: 'vllm-project/router 0.1.17 and SGLang gateway, CLI defaults',
  create({ engines, blockTokens }) {
    const load = new InFlight(engines.length)
    const trees = engines.map(() => new SentBlocks(Math.floor(MAX_TREE_CHARS / CHARS_PER_TOKEN / blockTokens)))
    return {
      name: 'cache_aware',
      scrapeMs: EVICT_EVERY_MS,
      scrape: () => trees.forEach((tree) => tree.trim()),
      route({ blocks, promptTokens }) {
        const { counts } = load
        const most = Math.max(...counts)
        const least = Math.min(...counts)
        const matches = trees.map((tree) => tree.match(blocks))
        const longest = Math.max(...matches)
        const follows = !(most - least > BALANCE_ABS && most > BALANCE_REL * least) && longest * blockTokens > CACHE_THRESHOLD * promptTokens
        const engine = follows ? matches.indexOf(longest) : indexOfLeast(counts)
        trees[engine]!.add(blocks)
        load.begin(engine)
        return { engine }
      },
      firstToken() {},
      ended: (job) => load.end(job),
    }
  },
}
