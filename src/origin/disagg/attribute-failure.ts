/** Who is to blame when an engine fails on what another was to hand it: that one may have died, with all it held. */
import type { AttemptFailure } from '../../core/contract/contract.ts'
import { OriginError, type EngineTarget } from '../../ports.ts'
import type { AttemptFailed, AttemptContext } from '../classify.ts'

/** A healthy engine says so in milliseconds, under full load too. The client waits for it. */
const ANSWER_MS = 1_000

/**
 * The failure of a last leg, or that of the engine it was to fetch from, where that one is gone: a decode engine that
 * gets
 * nothing from there answers 500 (vLLM with NIXL) and is well. Without this a prefill engine's death opens the
 * circuits of
 * all that were to fetch from it. Never rejects.
 */
export async function attributeFailure(
  attempt: AttemptContext,
  failed: AttemptFailed,
  holder: EngineTarget | undefined,
): Promise<AttemptFailed> {
  if (holder === undefined || !(failed.failure === 'status_5xx' || failed.failure === 'first_byte_timeout'))
    return failed
  const { exchange, ports } = attempt
  try {
    const answer = await ports.origin.send({
      target: holder,
      method: 'GET',
      path: '/health',
      headers: ['accept-encoding', 'identity'],
      body: null,
      connectMs: ANSWER_MS,
      firstByteMs: ANSWER_MS,
      signal: exchange.signal,
    })
    answer.discard()
    return answer.status < 500
      ? failed
      : gone(attempt, { engine: holder, failure: 'status_5xx', status: answer.status })
  } catch (error) {
    // One that is late may just be busy; and a client may have left meanwhile.
    const isGone = error instanceof OriginError && !inconclusive.has(error.failure)
    return isGone ? gone(attempt, { engine: holder, failure: error.failure, status: null }) : failed
  }
}

const inconclusive: ReadonlySet<AttemptFailure> = new Set(['first_byte_timeout', 'gateway_limit'])

function gone({ exchange, ports, placed }: AttemptContext, failed: AttemptFailed): AttemptFailed {
  ports.log.warn('kv_source_unreachable', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: failed.engine.id,
    failure: failed.failure,
  })
  return failed
}
