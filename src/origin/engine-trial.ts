/** One-token request of the gateway itself, charged to no key: it shows whether the core of an engine moves. */
import { ANSWER_PREFIX_BYTES } from '../engines/answer-meaning.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { Log } from '../ports/log.ts'
import { type Origin, OriginError } from '../ports/origin.ts'
import type { TrialVerdict } from '../ports/probe.ts'
import type { Timers } from '../ports/timers.ts'
import { withDeadline } from '../timeout.ts'
import { type KnownEngines, knownEngines } from './known-engines.ts'

/** Time for the connection, ms, as in probes. */
const CONNECT_MS = 2_000

const PATH = '/v1/completions'

/** Bodies are short: one token with its frame. */
const ANSWER_BYTES = 64 * 1024

interface TrialParts {
  readonly origin: Origin
  readonly log: Log
  readonly timers?: Timers | undefined
  /** Types of the engines. Default: those of the origin. */
  readonly known?: KnownEngines
}

/** Asks the engine for one token. Never rejects. */
export async function tryEngine(parts: TrialParts, target: EngineTarget, limitMs: number): Promise<TrialVerdict> {
  const { origin, log, timers } = parts
  const ended = new AbortController()
  try {
    const known = parts.known ?? knownEngines(origin)
    const { status, headers, body } = await withDeadline(limitMs, askForToken(parts, target, limitMs, ended.signal), {
      timers,
    })
    const sent = { path: PATH, model: target.model ?? null }
    const meaning = known.typeOf(target).answerOf({ status, headers, body: body.slice(0, ANSWER_PREFIX_BYTES) }, sent)
    if (meaning.kind === 'ok') return status < 300 && body.trim() !== '' ? 'passed' : 'failed'
    return meaning.kind === 'broken' || meaning.kind === 'lacks' ? 'failed' : 'unclear'
  } catch (error) {
    log.debug('trial_failed', { engine: target.id, error })
    return error instanceof OriginError && error.failure === 'gateway_limit' ? 'unclear' : 'failed'
  } finally {
    ended.abort()
  }
}

async function askForToken(
  { origin, timers }: TrialParts,
  target: EngineTarget,
  limitMs: number,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly headers: readonly string[]; readonly body: string }> {
  const request = { model: target.model, prompt: 'Are you there?', max_tokens: 1, temperature: 0 }
  const answer = await origin.send({
    target,
    method: 'POST',
    path: PATH,
    headers: ['content-type', 'application/json', 'accept-encoding', 'identity'],
    body: [new TextEncoder().encode(JSON.stringify(request))],
    connectMs: Math.min(CONNECT_MS, limitMs),
    firstByteMs: limitMs,
    signal,
    timers,
  })
  const body = new TextDecoder().decode(await answer.read(ANSWER_BYTES))
  return { status: answer.status, headers: answer.headers, body }
}
