import { count, dayAndClock, ms, plural } from './format.ts'
import type { Pool } from './wire.ts'

/** Time of the last digest of a region that does not answer, ms since the epoch. null: it answers, or none is known. */
export function silentSince({ gateway, at }: Pick<Pool, 'gateway' | 'at'>): number | null {
  if (!gateway || gateway.reachable || at === undefined) return null
  return at - gateway.age_ms
}

/** State of the gateway behind which a pool's engines are, as parts of a line. */
export function regionText(pool: Pool): readonly string[] {
  const { gateway } = pool
  if (gateway === null || gateway === undefined) return ['no digest yet']
  if (!gateway.reachable) {
    const since = silentSince(pool)
    return [`has not answered${since === null ? '' : ` since ${dayAndClock(since)}`}`]
  }
  const { engines, requests, queued, expected_ttft_ms: ttft, rtt_ms: rtt, age_ms: age, blocking_match: alike } = gateway
  return [
    `${plural(engines, 'engine')} there`,
    `${count(requests)} running`,
    `${count(queued)} waiting`,
    ...(ttft === null ? [] : [`first token in ${ms(ttft)}`]),
    `${ms(rtt)} away`,
    `updated ${age < 1000 ? 'just now' : `${Math.round(age / 1000)} s ago`}`,
    ...(alike ? [] : ['prompts divided into other blocks']),
  ]
}
