/**
 * Accuracy of routing where the gateway has partial information, in virtual time. One module of packages/bench/routing per
 * figure. `npm run bench -- routing [--only NAME,NAME] [--json FILE]`
 *
 * `decode_affinity`: follow-up turns sent to the engine that has the conversation, with decode engines, divided by
 * the same with engines of role `any`. `split_excess`: requests split although a decode engine has enough of the
 * prompt cached, as a share of all requests. `disturbed_away_of_36`: requests sent to the other of two equal engines
 * after one of them was late for a while; 12 is an even split of the new prompts. `foreign_load_ttft_ratio`:
 * mean TTFT with half of the load past the gateway, divided by that of a gateway that books all of it.
 * `worst_vs_best_policy`: mean TTFT of `predicted` divided by that of the best policy, on the worst of four workloads.
 */
import { decodeEngines } from './routing/decode-engines.ts'
import { disturbed } from './routing/disturbed.ts'
import { foreignLoad } from './routing/foreign-load.ts'
import { worstCase } from './routing/worst-case.ts'
import type { Bench, BenchOptions, BenchResult } from './result.ts'

export type RoutingFigure = (options: BenchOptions) => BenchResult | Promise<BenchResult>

const FIGURES: Readonly<Record<string, RoutingFigure>> = {
  decode_engines: decodeEngines,
  disturbed,
  foreign_load: foreignLoad,
  worst_case: worstCase,
}

const bench: Bench = async (options) => {
  const { flags, note } = options
  const names = typeof flags.only === 'string' ? flags.only.split(',') : Object.keys(FIGURES)
  const results: BenchResult[] = []
  for (const name of names) {
    const figure = FIGURES[name]
    if (figure === undefined)
      throw new Error(`--only ${name}: unknown. Use some of: ${Object.keys(FIGURES).join(', ')}.`)
    note(`${name} …`)
    const result = await figure(options)
    results.push({ ...result, rows: result.rows.map((row) => ({ figure: name, ...row })) })
  }
  return {
    rows: results.flatMap(({ rows }) => rows),
    headline: Object.assign({}, ...results.map(({ headline }) => headline)) as BenchResult['headline'],
  }
}

export default bench
