/** One-token request of the gateway itself, charged to no key: it shows whether the core of an engine moves. */
import { ANSWER_PREFIX_BYTES } from '../../engines/answer-meaning.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Log } from '../../ports/log.ts'
import { type Origin, OriginError } from '../../ports/origin.ts'
import type { TrialVerdict } from '../../ports/probe.ts'
import type { Timers } from '../../ports/timers.ts'
import { DeadlineError, withDeadline } from '../../timeout.ts'
import { defaultTimers } from '../../timers.ts'
import { type KnownEngines, knownEngines } from '../known-engines.ts'
import { ownRequest } from '../own-request.ts'
import { routeNameOf } from '../retry/missing-routes.ts'
import { patientTimers } from '../patience.ts'

/** Time for the connection, ms, as in probes. */
const CONNECT_MS = 2_000

const PROMPT = 'Are you there?'

interface TrialRoute {
  readonly path: string
  readonly prompt: object
}

/** An engine may lack one, or refuse it for its model. */
const ROUTES: readonly TrialRoute[] = [
  { path: '/v1/completions', prompt: { prompt: PROMPT } },
  { path: '/v1/chat/completions', prompt: { messages: [{ role: 'user', content: PROMPT }] } },
]

/** Bodies are short: one token with its frame. */
const ANSWER_BYTES = 64 * 1024

export interface TrialParts {
  readonly origin: Origin
  readonly log: Log
  readonly now: () => number
  readonly timers?: Timers | undefined
  /** Name of this deployment, as in forwarded requests: a trial must not pass a loop that they do not pass. */
  readonly via: string
  /** Types of the engines. Default: those of the origin. */
  readonly known?: KnownEngines
}

/**
 * Asks the engine for one token by each of the routes, at the same time: one of them may hang alone, such as a chat
 * whose template is not rendered. Never rejects.
 */
export async function tryEngine(parts: TrialParts, target: EngineTarget, limitMs: number): Promise<TrialVerdict> {
  const ended = new AbortController()
  const request = { limitMs, signal: ended.signal }
  const results = await Promise.all(ROUTES.map((route) => tryRoute(parts, target, { ...request, route })))
  ended.abort()
  if (results.includes('unanswered')) return 'failed'
  // Errors of one route fail requests as well, so that its circuit opens.
  if (results.includes('passed')) return 'passed'
  return results.includes('failed') ? 'failed' : 'unclear'
}

/** Result of one route; `unclear`: the engine does not serve it. */
type RouteResult = TrialVerdict | 'unanswered'

const UNANSWERED: ReadonlySet<string> = new Set(['first_byte_timeout', 'connect_timeout', 'idle_timeout'])

/** Never rejects. */
async function tryRoute(parts: TrialParts, target: EngineTarget, request: TokenRequest): Promise<RouteResult> {
  const { origin, log, now } = parts
  const { route, limitMs } = request
  const known = parts.known ?? knownEngines(origin)
  const name = routeNameOf('POST', route.path)
  if (known.missingRoutes.isMissing(target, name, now())) return 'unclear'
  const timers = patientTimers(parts.timers ?? defaultTimers, now)
  try {
    const { status, headers, body } = await withDeadline(limitMs, askForToken(parts, target, request), { timers })
    const sent = { path: route.path, model: target.model ?? null }
    const meaning = known.typeOf(target).answerOf({ status, headers, body: body.slice(0, ANSWER_PREFIX_BYTES) }, sent)
    if (meaning.kind === 'ok') return status < 300 && body.trim() !== '' ? 'passed' : 'failed'
    if (meaning.kind === 'lacks_route') known.missingRoutes.learn(target, name, now())
    return meaning.kind === 'broken' || meaning.kind === 'lacks' ? 'failed' : 'unclear'
  } catch (error) {
    log.debug('trial_failed', { engine: target.id, error })
    if (error instanceof DeadlineError) return 'unanswered'
    if (!(error instanceof OriginError)) return 'failed'
    if (error.failure === 'gateway_limit') return 'unclear'
    return UNANSWERED.has(error.failure) ? 'unanswered' : 'failed'
  }
}

interface TokenRequest {
  readonly route: TrialRoute
  readonly limitMs: number
  readonly signal: AbortSignal
}

async function askForToken(
  { origin, timers, via }: TrialParts,
  target: EngineTarget,
  { route: { path, prompt }, limitMs, signal }: TokenRequest,
): Promise<{ readonly status: number; readonly headers: readonly string[]; readonly body: string }> {
  const request = { model: target.model, ...prompt, max_tokens: 1, temperature: 0 }
  const answer = await origin.send(
    ownRequest(target, path, {
      json: JSON.stringify(request),
      headers: ['via', via],
      connectMs: Math.min(CONNECT_MS, limitMs),
      limitMs,
      signal,
      timers,
    }),
  )
  const body = new TextDecoder().decode(await answer.read(ANSWER_BYTES))
  return { status: answer.status, headers: answer.headers, body }
}
