/** Finds the engine at fault when a decode engine fails: the prefill engine with its KV data may be down. */
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { OriginError } from '../../ports/origin.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import { knownEngines } from '../known-engines.ts'
import { ownRequest } from '../own-request.ts'

/**
 * Time limit, ms, of the health check; the client waits for it. A healthy engine answers in milliseconds under full
 * load.
 */
const HEALTH_MS = 1_000

/**
 * Returns the failure of a final leg, or that of the prefill engine if that one is down: a decode engine that cannot
 * fetch KV data answers 500 (vLLM with NIXL) and is healthy. Otherwise the failure of one prefill engine would open
 * the circuits of all decode engines. Never rejects.
 */
export async function attributeFailure(
  attempt: AttemptContext,
  failed: FailedOutcome,
  holder: EngineTarget | undefined,
): Promise<FailedOutcome> {
  if (holder === undefined || !(failed.failure === 'status_5xx' || failed.failure === 'first_byte_timeout'))
    return failed
  const { exchange, ports } = attempt
  const [check] = knownEngines(ports.origin).typeOf(holder).health
  if (check === undefined) return failed
  const { path, badFrom } = check
  try {
    const answer = await ports.origin.send(ownRequest(holder, path, { limitMs: HEALTH_MS, signal: exchange.signal }))
    answer.discard()
    return answer.status < badFrom
      ? failed
      : kvSourceFailure(attempt, { engine: holder, failure: 'status_5xx', status: answer.status })
  } catch (error) {
    // A late engine may only be busy, and the client may have disconnected.
    const isDown = error instanceof OriginError && !inconclusive.has(error.failure)
    return isDown ? kvSourceFailure(attempt, { engine: holder, failure: error.failure, status: null }) : failed
  }
}

const inconclusive: ReadonlySet<AttemptFailure> = new Set(['first_byte_timeout', 'gateway_limit'])

function kvSourceFailure({ exchange, ports, placed }: AttemptContext, failed: FailedOutcome): FailedOutcome {
  ports.log.warn('kv_source_unreachable', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: failed.engine.id,
    failure: failed.failure,
  })
  return failed
}
