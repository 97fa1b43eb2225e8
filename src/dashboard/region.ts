import { count, ms, plural } from './format.ts'
import type { Pool } from './wire.ts'

/** State of the gateway behind which a pool's engines are, as parts of a line. */
export function regionText({ gateway }: Pool): readonly string[] {
  if (gateway === null || gateway === undefined) return ['no digest yet']
  const {
    reachable,
    engines,
    requests,
    queued,
    expected_ttft_ms: ttft,
    rtt_ms: rtt,
    age_ms: age,
    blocking_match: alike,
  } = gateway
  return [
    ...(reachable ? [] : ['does not answer']),
    `${plural(engines, 'engine')} there`,
    `${count(requests)} running`,
    `${count(queued)} waiting`,
    ...(ttft === null ? [] : [`first token in ${ms(ttft)}`]),
    `${ms(rtt)} away`,
    `updated ${age < 1000 ? 'just now' : `${Math.round(age / 1000)} s ago`}`,
    ...(alike ? [] : ['prompts divided into other blocks']),
  ]
}
