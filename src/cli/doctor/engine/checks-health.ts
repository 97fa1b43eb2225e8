/** Checks of health and clock. */
import { failures } from '../../../failure.ts'
import type { Findings } from '../finding.ts'
import type { EngineFacts } from './facts.ts'
import { isAway, skewMs } from './read.ts'

/** Clock difference in milliseconds above which a clock counts as wrong. */
const SKEWED_MS = 2_000

/** Status that a gateway returns for a request that has passed it before (`via`). */
export const LOOP_STATUS = failures.loop.status

export function checkHealth({ health, switches, metrics }: EngineFacts, found: Findings): void {
  const took = `${health.tookMs.toFixed(0)} ms`
  if (health.status === LOOP_STATUS) {
    found.problem('health', 'the address leads back to the gateway of this configuration', {
      costs: 'Requests sent here loop and are refused (508).',
      next: 'Configure the address of the engine itself.',
    })
  } else if (health.status >= 500) {
    found.problem('health', `/health returns ${health.status}`, {
      costs: 'The gateway sends no requests to it.',
      next: 'See its log. vLLM returns this if its core has crashed or is still starting.',
    })
  } else if (health.status >= 300 && health.status < 400) {
    found.problem('health', `it redirects to ${health.headers.location ?? 'somewhere'}`, {
      costs:
        'The gateway does not follow redirects, because they could send prompts to an address that is not configured.',
      next: 'Configure the address it redirects to.',
    })
  } else if (health.status !== 200) {
    found.note('health', `/health returns ${health.status}`, {
      costs: 'The gateway treats this as healthy and detects failures only from requests.',
    })
  } else found.ok('health', `/health 200 in ${took}`)
  if (!isAway(switches, metrics)) return
  const paused = switches.paused === true && switches.sleeping !== true
  const wake = paused ? 'POST /resume' : 'POST /wake_up'
  found.problem('awake', `it is ${paused ? 'paused' : 'asleep'}`, {
    costs: 'Requests would hang; the gateway sends none until the engine is back.',
    next: `${wake} ends that.`,
  })
}

export function checkClock({ health }: EngineFacts, found: Findings): void {
  const skew = skewMs(health)
  if (skew === null) return found.note('clock', 'responses have no Date header')
  if (Math.abs(skew) < SKEWED_MS) return found.ok('clock', 'within 2 s of this machine’s')
  found.warn('clock', `${(Math.abs(skew) / 1000).toFixed(0)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine’s`, {
    costs: 'Timestamps of its logs, KV events and traces do not match the gateway’s.',
    next: 'Synchronise both machines (chrony, systemd-timesyncd).',
  })
}
