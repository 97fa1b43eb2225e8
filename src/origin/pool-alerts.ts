/** Events of a pool, for the log and for the operator's webhook. */
import { logFieldsOf, type PoolEvent } from '../core/pool/pool-events.ts'
import type { Ports } from '../ports.ts'
import type { Alert } from '../ports/alerts.ts'
import type { RequestScope } from '../ports/request-scope.ts'

interface PoolName {
  readonly cluster: string
  readonly pool: string
}

interface AlertTexts {
  readonly did: string
  readonly next: string | null
}

const NO_REQUESTS = 'It gets no new requests.'
const IN_USE = 'It stays in use, because a limit of ejection allows no further engine to be taken out.'

const SLOW_HOST = 'Compare clocks, temperature, flags and other load of its host with those of its siblings.'

/** Texts of `engine_down`, by condition. */
const DOWN: Readonly<Record<string, AlertTexts>> = {
  wedged: {
    did: `${NO_REQUESTS} Requests that wait there move to other engines. It is tried with one token again and again.`,
    next: 'Restart the process of the engine: its health check may pass all the time.',
  },
  unreachable: {
    did: `${NO_REQUESTS} Its health is checked every second.`,
    next: 'Check the process of the engine and the network, then run firstlight doctor.',
  },
  slow: {
    did: 'It gets only requests that no other engine can serve. It is compared with a sibling every two seconds.',
    next: SLOW_HOST,
  },
  faulty: {
    did: `${NO_REQUESTS} Its circuit is closed again by a trial that succeeds.`,
    next: 'Search the gateway log for attempts on this engine.',
  },
}

const BEHIND: Readonly<Record<string, AlertTexts>> = {
  saturated: {
    did: 'It gets fewer requests, by its predicted times.',
    next: 'Add engines, or limit prompts and output.',
  },
  slow: {
    did: 'It gets fewer requests, by its predicted times.',
    next: SLOW_HOST,
  },
}

function textsOf({ event, condition = 'well', taken_out: isOut }: PoolEvent): AlertTexts {
  switch (event) {
    case 'engine_up':
      return { did: 'It gets requests again.', next: null }
    case 'engine_down': {
      const { did, next } = DOWN[condition] ?? { did: NO_REQUESTS, next: null }
      return { did: isOut === false ? IN_USE : did, next }
    }
    case 'engine_disagrees':
      return {
        did: isOut === true ? NO_REQUESTS : 'It stays in use.',
        next: 'Compare its weights, quantisation, chat template and version with those of its siblings; restart it.',
      }
    case 'engine_agrees':
      return { did: 'It is used like the others.', next: null }
    case 'engine_behind':
      return BEHIND[condition] ?? { did: 'It stays in use.', next: null }
    case 'pool_stalled':
      return {
        did: 'At most the configured share of the engines is taken out; the others stay in use.',
        next: 'Look for a common cause: network, shared storage, a driver or a rollout. Then restart the engines.',
      }
    case 'ejection_withheld':
      return { did: IN_USE, next: 'Check the failures of this engine and of the others of its pool.' }
    case 'ranks_ignored':
      return {
        did: 'Its data-parallel ranks are one engine, and the choice of a rank is tried again after an hour.',
        next: 'Let the proxy in front of the server pass the header X-data-parallel-rank.',
      }
    case 'ranks_differ':
      return {
        did: 'The configured ranks stay in use.',
        next: 'Set data_parallel of the engine to the number of its ranks, or to auto.',
      }
    case 'panic_mode':
      return {
        did: 'Circuits are ignored, because too few engines of the pool are available.',
        next: 'Bring back the engines of this pool, or add some.',
      }
  }
}

/** Returns the alert for an event. */
export function alertOf({ cluster, pool }: PoolName, raised: PoolEvent, now: number): Alert {
  const { event, engine, condition = 'well', since = now, hurt = null } = raised
  return {
    event,
    cluster,
    pool,
    engine,
    state: event === 'engine_disagrees' ? 'disagrees' : event === 'engine_up' ? 'well' : condition,
    since: new Date(since).toISOString(),
    hurt,
    ...textsOf(raised),
  }
}

/** Logs events, and alerts the operator if a webhook is configured. */
export function reportPoolEvents(
  { log, alerts, now }: Pick<Ports, 'log' | 'alerts' | 'now'>,
  { cluster, pool }: PoolName,
  events: readonly PoolEvent[],
  scope?: Pick<RequestScope, 'background'>,
): void {
  for (const raised of events) {
    log.warn(raised.event, { cluster, model: pool, ...logFieldsOf(raised) })
    alerts.raise(alertOf({ cluster, pool }, raised, now()), scope)
  }
}
