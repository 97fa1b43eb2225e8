/** How much later than predicted a slow engine answered. */
import { median } from '../median.ts'
import type { ClientCall } from './client.ts'
import { ADMIN_KEY, type Site } from './site.ts'

interface ExplainedDecision {
  readonly placement: { readonly engine?: string }
  readonly predicted_ttft_ms: number | null
  readonly first_token?: { readonly ttft_ms: number }
}

/** Share by which a first token may be later than predicted. */
const ALLOWED_SHARE = 0.2

export interface PredictedLateness {
  /** Median of measured by predicted times to first token. */
  readonly ttft_over_predicted: number | null
  /** Share of the first tokens that came more than 20 % later than predicted. */
  readonly later_than_predicted: number | null
}

/** @param calls those that the engine answered */
export async function predictedLateness(site: Site, calls: readonly ClientCall[]): Promise<PredictedLateness> {
  const ratios: number[] = []
  for (const { decision, engine } of calls) {
    if (decision === null) continue
    const response = await fetch(`${site.url}/v1/firstlight/decisions/${decision}`, {
      headers: { authorization: `Bearer ${ADMIN_KEY}` },
    })
    if (!response.ok) continue
    const {
      placement,
      predicted_ttft_ms: predictedMs,
      first_token: first,
    } = (await response.json()) as ExplainedDecision
    if (placement.engine === engine && predictedMs !== null && first !== undefined)
      ratios.push(first.ttft_ms / predictedMs)
  }
  if (ratios.length === 0) return { ttft_over_predicted: null, later_than_predicted: null }
  const later = ratios.filter((ratio) => ratio > 1 + ALLOWED_SHARE).length
  return { ttft_over_predicted: median(ratios), later_than_predicted: later / ratios.length }
}
