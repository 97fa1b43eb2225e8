/** One-token request of the gateway itself, charged to no key: it shows whether the core of an engine moves. */
import { ANSWER_PREFIX_BYTES } from '../../engines/answer-meaning.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Log } from '../../ports/log.ts'
import { type Origin, OriginError } from '../../ports/origin.ts'
import type { TrialVerdict } from '../../ports/probe.ts'
import type { Timers } from '../../ports/timers.ts'
import { withDeadline } from '../../timeout.ts'
import { type KnownEngines, knownEngines } from '../known-engines.ts'
import { routeOf } from '../missing-routes.ts'

/** Time for the connection, ms, as in probes. */
const CONNECT_MS = 2_000

const PROMPT = 'Are you there?'

interface TrialRoute {
  readonly path: string
  readonly prompt: object
}

/** In the order in which they are tried: an engine may lack one, or refuse it for its model. */
const ROUTES: readonly TrialRoute[] = [
  { path: '/v1/completions', prompt: { prompt: PROMPT } },
  { path: '/v1/chat/completions', prompt: { messages: [{ role: 'user', content: PROMPT }] } },
]

/** Bodies are short: one token with its frame. */
const ANSWER_BYTES = 64 * 1024

interface TrialParts {
  readonly origin: Origin
  readonly log: Log
  readonly now: () => number
  readonly timers?: Timers | undefined
  /** Types of the engines. Default: those of the origin. */
  readonly known?: KnownEngines
}

/** Asks the engine for one token. Never rejects. */
export async function tryEngine(parts: TrialParts, target: EngineTarget, limitMs: number): Promise<TrialVerdict> {
  const { log, timers } = parts
  const ended = new AbortController()
  try {
    return await withDeadline(limitMs, tryRoutes(parts, target, limitMs, ended.signal), { timers })
  } catch (error) {
    log.debug('trial_failed', { engine: target.id, error })
    return error instanceof OriginError && error.failure === 'gateway_limit' ? 'unclear' : 'failed'
  } finally {
    ended.abort()
  }
}

async function tryRoutes(
  parts: TrialParts,
  target: EngineTarget,
  limitMs: number,
  signal: AbortSignal,
): Promise<TrialVerdict> {
  const { origin, now } = parts
  const known = parts.known ?? knownEngines(origin)
  const { missingRoutes } = known
  for (const route of ROUTES) {
    const name = routeOf('POST', route.path)
    if (missingRoutes.isMissing(target, name, now())) continue
    const { status, headers, body } = await askForToken(parts, target, { route, limitMs, signal })
    const sent = { path: route.path, model: target.model ?? null }
    const meaning = known.typeOf(target).answerOf({ status, headers, body: body.slice(0, ANSWER_PREFIX_BYTES) }, sent)
    if (meaning.kind === 'ok') return status < 300 && body.trim() !== '' ? 'passed' : 'failed'
    if (meaning.kind === 'broken' || meaning.kind === 'lacks') return 'failed'
    if (meaning.kind === 'busy') return 'unclear'
    if (meaning.kind === 'lacks_route') missingRoutes.learn(target, name, now())
  }
  return 'unclear'
}

interface TokenRequest {
  readonly route: TrialRoute
  readonly limitMs: number
  readonly signal: AbortSignal
}

async function askForToken(
  { origin, timers }: TrialParts,
  target: EngineTarget,
  { route: { path, prompt }, limitMs, signal }: TokenRequest,
): Promise<{ readonly status: number; readonly headers: readonly string[]; readonly body: string }> {
  const request = { model: target.model, ...prompt, max_tokens: 1, temperature: 0 }
  const answer = await origin.send({
    target,
    method: 'POST',
    path,
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
