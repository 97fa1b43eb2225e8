import { oracleKinds } from '../replay/oracles.ts'
import type { ReplayRow } from './replay-row.ts'

/** Policies with exact engine state, which cannot be deployed. */
const REFERENCES: ReadonlySet<string> = new Set(oracleKinds.map(({ name }) => name))

/** Means closer than this share of each other are equal. */
const MIN_LEAD = 0.005

/** Names the policy with the lowest mean TTFT and its lead, as one sentence. null: nothing to compare. */
export function winnerOf(rows: readonly ReplayRow[]): string | null {
  const [first, second] = rows
    .filter(({ policy }) => !REFERENCES.has(policy))
    .toSorted((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  if (first === undefined || second === undefined) return null
  const lead = second.ttft_mean_ms - first.ttft_mean_ms
  const spread = Math.max(first.ttft_mean_sd_ms ?? 0, second.ttft_mean_sd_ms ?? 0)
  const present = rows.map(({ policy }) => policy).filter((policy) => REFERENCES.has(policy))
  const references =
    present.length === 0
      ? ''
      : ` ${present.join(' and ')} ${present.length === 1 ? 'is a reference' : 'are references'} with exact ` +
        'engine state.'
  if (lead <= Math.max(spread, MIN_LEAD * second.ttft_mean_ms))
    return (
      `No clear winner: mean TTFT of ${first.policy} and ${second.policy} differs by less than ` +
      `${spread > 0 ? 'the deviation between seeds' : `${MIN_LEAD * 100} %`}.${references}`
    )
  const percent = ((100 * lead) / second.ttft_mean_ms).toFixed(lead < 0.1 * second.ttft_mean_ms ? 1 : 0)
  return `Winner: ${first.policy}, mean TTFT ${percent} % below ${second.policy}.${references}`
}
