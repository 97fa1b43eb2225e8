/** What runs on the mixed fleets: the gateway, rules of other projects with their defaults, and an oracle. */
import { GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import { routerNamed } from '../../replay/src/replay/routers.ts'
import type { Route, RouterContext, RouterKind } from '../../replay/src/replay/router.ts'
import { ComparingOverload, TOLERANCE } from './compared-bounds.ts'
import { smgLoad, smgPrefixHash } from './smg.ts'

export const OWN = 'predicted'
export const ORACLE = 'exact'

/** `cache_aware` is that of vllm-router and of SMG; `lmetric` and `active_blocks` are rules that the gateway also has. */
export const peerKinds: readonly RouterKind[] = [
  ...[
    'round_robin',
    'production_stack_ttft',
    'production_stack_kvaware',
    'llm_d',
    'cache_aware',
    'dynamo_1731',
    'dynamo_today',
    'lmetric',
  ].map(routerNamed),
  smgPrefixHash,
  smgLoad,
]

export const oracleKind: RouterKind = routerNamed(ORACLE)

/** Terms of a candidate that are its predicted time to the first token. */
const PREDICTED_TERMS = ['network_s', 'queued_s', 'prefill_s', 'load_s', 'adapter_s', 'delay_s', 'later_s']

/** Counts of decisions whose predictions were compared. */
export interface PredictionTally {
  decisions: number
  /** Bounds of admission that were compared with the reported prediction. */
  bounds: number
  /** Decisions whose reported prediction is not the one that decided, in the policy or in a bound. */
  differed: number
}

/** Compares the reported prediction of each decision with what decides: the policy's cost and admission's bounds. */
class ComparingRouter extends GatewayRouter {
  readonly #overload: ComparingOverload
  readonly #tally: PredictionTally

  constructor(context: RouterContext, overload: ComparingOverload, tally: PredictionTally) {
    super({ name: OWN, policy: { name: 'predicted', options: {} }, overload }, context)
    this.#overload = overload
    this.#tally = tally
  }

  override route(job: Job, now: number): Route | null {
    const route = super.route(job, now)
    const decision = this.state.explain(`r${job.index}`)
    if (decision === null || decision.placement.kind !== 'whole') return route
    const { engine } = decision.placement
    const { terms } = decision.candidates.find((candidate) => candidate.engine === engine)!
    const decidingMs = 1_000 * PREDICTED_TERMS.reduce((sum, term) => sum + terms[term]!, 0)
    const costDiffers = Math.abs(decidingMs - route!.predictedTtftMs!) > TOLERANCE * decidingMs
    const { compared, differ } = this.#overload.last
    this.#tally.decisions += 1
    this.#tally.bounds += compared
    if (costDiffers || differ > 0) this.#tally.differed += 1
    return route
  }
}

/** The gateway with its default policy. @param tally counts its decisions */
export function ownKind(tally: PredictionTally): RouterKind {
  return {
    name: OWN,
    doc: 'the gateway',
    source: 'Firstlight',
    create: (context) => new ComparingRouter(context, new ComparingOverload(context.random), tally),
  }
}
