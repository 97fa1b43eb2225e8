import { prefillWork } from '../../../core/pool/prefill-queue.ts'
import { rendezvous, hashText, hashPair } from '../../../core/routing/rendezvous.ts'
import type { Job } from '../trace.ts'
import type { RouterContext, RouterKind } from '../router.ts'
import { Arrivals, indexOfLeast, InFlight, SentBlocks } from './llm-d.ts'

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
  doc:
    'Longest match above 0.3 in a tree of sent prompts; otherwise, or if imbalanced by 64 and x1.5, fewest in ' +
    'flight.',
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
        const follows =
          !(most - least > BALANCE_ABS && most > BALANCE_REL * least) &&
          longest * blockTokens > CACHE_THRESHOLD * promptTokens
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

const KV_AWARE_THRESHOLD = 2000

/** Fallback when a lookup does not decide: the session's engine, or the one with the fewest arrivals in a minute. */
function fallback(context: RouterContext, arrivals: Arrivals): (job: Job, now: number) => number {
  const ring = context.engines.map((_, at) => ({ id: String(at), weight: 1, at }))
  return ({ request }, now) =>
    request.session === null ? arrivals.least(now) : rendezvous(hashText(request.session), ring)[0]!.at
}

/**
 * production-stack `kvaware`: the instance with the longest match in LMCache, if at most 2000 tokens remain to be
 * computed; load is ignored. Without LMCache in the fleet, an exact and immediate directory of the engines' caches is
 * assumed.
 */
export function kvawareWith(name: string, threshold: number): RouterKind {
  return {
    name,
    doc: `Longest LMCache match; session, then fewest arrivals, when more than ${threshold} tokens are not cached.`,
    source: 'vllm production-stack, --routing-logic kvaware',
    create(context) {
      const arrivals = new Arrivals(context.engines.length)
      const otherwise = fallback(context, arrivals)
      return {
        name,
        route(job, now) {
          const matched = matchedTokens(context, job, now)
          const longest = Math.max(...matched)
          const decides = longest > 0 && longest >= Math.max(job.promptTokens - threshold, 0)
          const engine = decides ? matched.indexOf(longest) : otherwise(job, now)
          arrivals.add(engine, now)
          return { engine }
        },
        firstToken() {},
        ended() {},
      }
    },
  }
}

export const kvaware = kvawareWith('production_stack_kvaware', KV_AWARE_THRESHOLD)

/**
 * production-stack#670: least pending plus new work by the trapezoid formula. Work is pending in full until the first
 * token. Among equals the later engine is chosen; engines with a match are compared before those without.
 */
export const ttft670: RouterKind = {
  name: 'production_stack_ttft',
  doc: 'Pending plus new prefill work by the trapezoid formula, cached tokens from LMCache.',
  source: 'vllm production-stack#670, from its code',
  create(context) {
    const { engines } = context
    const pending = new Float64Array(engines.length)
    const works = new Map<Job, { readonly engine: number; readonly work: number }>()
    const done = (job: Job) => {
      const booked = works.get(job)
      if (booked === undefined) return
      pending[booked.engine]! -= booked.work
      works.delete(job)
    }
    return {
      name: 'production_stack_ttft',
      route(job, now) {
        const cached = matchedTokens(context, job, now)
        const chosen = leastWork(job.promptTokens, cached, pending)
        const work = prefillWork(job.promptTokens, cached[chosen]!)
        works.set(job, { engine: chosen, work })
        pending[chosen]! += work
        return { engine: chosen }
      },
      firstToken: done,
      ended: done,
    }
  },
}

/** Matched prefix of each engine in a lookup, in any tier. */
function matchedTokens({ engines, lmcache, blockTokens }: RouterContext, job: Job, now: number): number[] {
  return engines.map((engine, at) =>
    lmcache == null
      ? engine.exactCachedTokens(job)
      : Math.min(job.promptTokens, lmcache.lookup(at, job.blocks, now).remote * blockTokens),
  )
}

/** Returns the engine that #670 chooses: engines with a match first, then the others, each time the later of equals. */
export function leastWork(promptTokens: number, cached: readonly number[], pending: ArrayLike<number>): number {
  const order = [...cached.keys()].filter((at) => cached[at]! > 0)
  for (const at of cached.keys()) if (cached[at] === 0) order.push(at)
  let best = -1
  let least = Infinity
  for (const at of order) {
    const work = pending[at]! + prefillWork(promptTokens, cached[at]!)
    if (work > least) continue
    least = work
    best = at
  }
  return best
}
