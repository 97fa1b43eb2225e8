import type { RouterKind } from '../router.ts'
import { indexOfMin, InFlight } from './in-flight.ts'
import { SentBlocks } from './sent-blocks.ts'

/** Defaults of the command line. */
const CACHE_THRESHOLD = 0.3

const BALANCE_ABS = 64

const BALANCE_REL = 1.5

const EVICT_EVERY_MS = 120_000

const MAX_TREE_CHARS = 2 ** 26

const CHARS_PER_TOKEN = 4

/**
 * `cache_aware` of vllm-router (0.1.17) and the SGLang gateway with their default flags: an approximate tree per
 * engine of the prompts sent there. Matches above 0.3 follow the tree; other requests go to the least loaded engine
 * (vllm-router) or the smallest tree (SGLang). If requests in flight are imbalanced (64 and 1.5 times), all go to the
 * least loaded engine.
 */
export const cacheAware: RouterKind = {
  name: 'cache_aware',
  doc: 'Longest match above 0.3 in a tree of sent prompts; else, or if imbalanced by 64 and x1.5, least in flight.',
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
        const max = Math.max(...counts)
        const min = Math.min(...counts)
        const matches = trees.map((tree) => tree.match(blocks))
        const longest = Math.max(...matches)
        const follows =
          !(max - min > BALANCE_ABS && max > BALANCE_REL * min) &&
          longest * blockTokens > CACHE_THRESHOLD * promptTokens
        const engine = follows ? matches.indexOf(longest) : indexOfMin(counts)
        trees[engine]!.add(blocks)
        load.begin(engine)
        return { engine }
      },
      firstToken() {},
      ended: (job) => load.end(job),
    }
  },
}
