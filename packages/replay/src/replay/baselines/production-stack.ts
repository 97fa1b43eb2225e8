import { prefillWork } from '../../../../../src/core/latency/prefill-work.ts'
import { hashText } from '../../../../../src/core/routing/placement-hash.ts'
import { rendezvous } from '../../../../../src/core/routing/rendezvous.ts'
import type { Job } from '../job.ts'
import type { RouterContext, RouterKind } from '../router.ts'
import { Arrivals } from './arrivals.ts'

const KV_AWARE_THRESHOLD = 2000

/** Fallback when a lookup does not decide: the session's engine, or the one with the fewest arrivals in a minute. */
function fallback(context: RouterContext, arrivals: Arrivals): (job: Job, now: number) => number {
  const ring = context.engines.map((_, at) => ({ id: String(at), weight: 1, at }))
  return ({ request }, now) =>
    request.session === null ? arrivals.min(now) : rendezvous(hashText(request.session), ring)[0]!.at
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

/**
 * Returns the engine that #670 chooses: engines with a match first, then the others, each time the later of equals.
 * @testing
 */
export function leastWork(promptTokens: number, cached: readonly number[], pending: ArrayLike<number>): number {
  const order = [...cached.keys()].filter((at) => cached[at]! > 0)
  for (const at of cached.keys()) if (cached[at] === 0) order.push(at)
  let best = -1
  let min = Infinity
  for (const at of order) {
    const work = pending[at]! + prefillWork(promptTokens, cached[at]!)
    if (work > min) continue
    min = work
    best = at
  }
  return best
}
