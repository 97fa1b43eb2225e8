/** The reason of a decision in one sentence. */
import { count, ms, numbersApart, plural } from './format.ts'
import type { DecisionDetail } from './wire.ts'

/** @testing */
export type ExplainedDecision = Pick<
  DecisionDetail,
  | 'policy'
  | 'placement'
  | 'candidates'
  | 'predicted_ttft_ms'
  | 'predicted_cached_tokens'
  | 'prompt_tokens'
  | 'moved_from'
>

export function sentenceOf(detail: ExplainedDecision): string {
  const {
    policy,
    placement,
    predicted_ttft_ms: ttftMs,
    predicted_cached_tokens: cached,
    prompt_tokens: prompt,
  } = detail
  const chosen =
    placement.kind === 'whole' ? placement.engine : `${placement.prefill} to prefill and ${placement.decode} to decode`
  const expected = ttftMs === null ? '' : `; predicted first token after ${ms(ttftMs)}`
  const hit = cached === null ? '' : `, with ${count(cached)} of ${count(prompt)} prompt tokens cached`
  return `${policy} chose ${chosen}${reasonOf(detail)}${expected}${expected === '' ? '' : hit}.`
}

function reasonOf({ placement, candidates, moved_from: movedFrom }: ExplainedDecision): string {
  if (movedFrom !== undefined) return `, because its first choice, ${movedFrom}, had no room for the request`
  if (candidates.length === 1) return ', the only candidate'
  const taker = placement.kind === 'whole' ? placement.engine : placement.prefill
  const own = candidates.find(({ engine }) => engine === taker)
  const others = candidates.filter(({ engine }) => engine !== taker)
  const [next] = others.toSorted((one, other) => costOf(one) - costOf(other))
  if (own === undefined || next === undefined) return ''
  const of = ` of ${plural(candidates.length, 'candidate')}`
  const [cost, nextCost] = numbersApart(own.cost, next.cost)
  if (costOf(own) < costOf(next))
    return `${of}: its cost of ${cost} is the lowest, before ${next.engine} with ${nextCost}`
  if (costOf(own) === costOf(next)) return `${of}: its cost of ${cost} equals that of ${next.engine}`
  return `${of}, although ${next.engine} has a lower cost (${nextCost}, not ${cost})`
}

const costOf = ({ cost }: ExplainedDecision['candidates'][number]): number => cost ?? Infinity
