/** Moves a stream to another engine: books it there, and asks for the rest of the output by token ids. */
import { completionBody, needsModelLen, tokensLeft } from '../../core/continuation/completion-body.ts'
import type { NotContinued } from '../../core/continuation/continuable.ts'
import { StopWindow } from '../../core/continuation/stop-window.ts'
import { type AttemptFailure, endedAs } from '../../core/contract/outcome.ts'
import { chainBlocks } from '../../core/tokens/block-hash.ts'
import { type OriginAnswer, OriginError } from '../../ports/origin.ts'
import { timersOf } from '../../timers.ts'
import { acquirePlacement } from '../placement/acquire.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import { onePoolHistory } from '../placement/one-pool-history.ts'
import type { SecondEngine } from '../placement/place-step.ts'
import { completions } from '../../protocols/completions.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import { keepsAnswer } from '../retry/kept-answer.ts'
import { classifyRefusal } from '../classify.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import { type Exchange, plainExchange } from '../exchange.ts'
import type { RequestSource } from '../request-source.ts'
import { StageTimer } from '../stage-timer.ts'
import { type CallContext, maxModelLen } from './engine-calls.ts'
import { pendingText } from './pending-text.ts'
import type { StreamState } from './stream-state.ts'

/** Engines that may be tried for one handover. */
const MAX_ENGINES = 3

/**
 * Why the stream leaves its engine. `drains`: it has not failed, so no retry budget is needed. `silent`: it leaves only
 * if the pool finds the engine wedged.
 */
export type HandoverCause = 'failed' | 'drains' | 'silent'

interface HandoverInput {
  /** The attempt whose engine is left. */
  readonly attempt: AttemptContext
  readonly state: StreamState
  readonly digests: PoolDigests
  readonly cause: HandoverCause
  readonly how: 'ids' | 'replay'
  /** Bookings of this request so far. */
  readonly booked: number
  /** Failed attempts of this request so far, the last one included. */
  readonly failed: readonly FailedOutcome[]
  /** Called with each engine that failed, so that its health is checked soon. */
  probeSoon(engine: FailedOutcome['engine']): void
}

/** The stream at its next engine. */
export interface Handover {
  readonly kind: 'moved'
  readonly attempt: AttemptContext
  readonly answer: OriginAnswer
  readonly dispatchedAt: number
  /** null: the request is repeated. */
  readonly byIds: ByIds | null
  /** Output tokens that the client has. */
  readonly tokens: number
}

interface ByIds {
  readonly window: StopWindow
  /** Text that the client gets first. */
  readonly pending: string
  /** Ids that were dropped, because they ended inside a character. */
  readonly dropped: number
  readonly calls: CallContext
}

/** `booked`: bookings that were made. */
export type HandoverResult = HandoverEnd & { readonly booked: number }

type HandoverEnd =
  | Handover
  /** The output is complete: a stop string in the text that was held back, or the limit of tokens. */
  | { readonly kind: 'finished'; readonly text: string; readonly finish: string; readonly stop: string | null }
  | { readonly kind: 'refused'; readonly reason: NotContinued; readonly failed: readonly FailedOutcome[] }

/** Never rejects, except if the client disconnects. Releases every booking but that of the result. */
export async function handOver(input: HandoverInput): Promise<HandoverResult> {
  const failed = [...input.failed]
  let booked = 0
  while (booked < MAX_ENGINES) {
    const exchange = continuationExchange(input)
    const placed = await place(input, exchange, { failed, attempt: input.booked + booked })
    if (typeof placed === 'string') return { kind: 'refused', reason: placed, failed, booked }
    booked++
    const { ports } = input.attempt
    const attempt = { ...input.attempt, exchange, placed, stages: new StageTimer({}), earlier: [...failed] }
    try {
      const result = await (input.how === 'ids' ? continueByIds(attempt, input.state) : repeat(attempt, input.state))
      if ('kind' in result) {
        if (result.kind !== 'moved') release(attempt, null)
        return { ...result, booked }
      }
      release(attempt, result)
      failed.push(result)
    } catch (error) {
      if (exchange.signal.aborted) {
        release(attempt, null)
        throw error
      }
      const reason = error instanceof OriginError ? error.failure : 'malformed'
      ports.log.warn('continuation_failed', {
        id: exchange.id,
        cluster: placed.route.cluster.id,
        engine: placed.engine.id,
        failure: reason,
        error,
      })
      const failure = { engine: placed.engine, failure: reason, status: null } as const
      release(attempt, failure)
      failed.push(failure)
    }
    input.probeSoon(placed.engine)
  }
  return { kind: 'refused', reason: 'engine_failed', failed, booked }
}

/** Sends the original request again. */
async function repeat(attempt: AttemptContext, state: StreamState): Promise<HandoverEnd | FailedOutcome> {
  const { exchange, ports, placed } = attempt
  const calls = callContextOf(attempt)
  const dispatchedAt = ports.now()
  const answer = await send(attempt, calls, exchange.source.body(placed.route) ?? [])
  if ('failure' in answer) return answer
  return {
    kind: 'moved',
    attempt,
    answer,
    dispatchedAt,
    byIds: null,
    tokens: state.hasOutput ? state.record.tokens : 0,
  }
}

const callContextOf = ({ exchange, ports, placed }: AttemptContext): CallContext => ({
  ports,
  target: placed.engine,
  signal: exchange.signal,
  model: exchange.source.admission(placed.route).model,
  timers: timersOf(exchange.scope, ports),
})

async function place(
  { attempt: { ports, placed: last, stepsOf }, digests, cause }: HandoverInput,
  exchange: Exchange,
  { failed, attempt }: { readonly failed: readonly FailedOutcome[]; readonly attempt: number },
): Promise<AcquiredPlacement | NotContinued> {
  const avoid = [...failed.map(({ engine }) => engine.id), last.engine.id]
  const history = onePoolHistory(last.route, { attempt, skipsRetryBudget: cause === 'drains', failed, avoid })
  const context = { ports, digests, stages: new StageTimer({}), stepsOf }
  const second: SecondEngine | undefined = cause === 'silent' ? { kind: 'rescue', first: last } : undefined
  const placed = await acquirePlacement(exchange, context, history, second)
  if (!('refusal' in placed)) return placed
  return placed.refusal.reason === 'retry_budget' ? 'retry_budget' : 'no_engine'
}

/** The exchange as the request for the rest of the output: one engine, and the output so far as part of the prompt. */
function continuationExchange({
  attempt: { exchange, placed, ports },
  state: { record },
  how,
}: HandoverInput): Exchange {
  const { id, requestId, headers, configVersion, pinned, scope, signal } = exchange
  return {
    // Without an observer: the end is that of the client's stream.
    ...plainExchange,
    id,
    requestId,
    // Stages of this part begin here.
    receivedAt: ports.now(),
    headers,
    configVersion,
    pinned,
    scope,
    signal,
    stages: {},
    record: exchange.record,
    method: 'POST',
    ...(how === 'ids'
      ? { protocol: completions, path: '/v1/completions' }
      : { protocol: exchange.protocol, path: exchange.path }),
    stream: true,
    observe: true,
    heartbeatMs: exchange.heartbeatMs,
    clientHeaders: [],
    routes: [placed.route],
    source: sourceOf(exchange.source, record, how),
  }
}

/** The request of the next engine. */
const sourceOf = (source: RequestSource, record: StreamState['record'], how: HandoverInput['how']): RequestSource => ({
  body: how === 'ids' ? () => null : (route) => source.body(route),
  admission: (route) => {
    const { ttftDeadlineMs: _deadline, sequences: _sequences, ...base } = source.admission(route)
    const whole = { ...base, hints: null, chunks: null, unsplittable: 'it continues a stream', encodeItems: 0 }
    if (how === 'replay') return whole
    return {
      ...whole,
      promptTokens: (record.promptIds?.length ?? base.promptTokens) + record.tokens,
      blocks: isExact(base.tokenSource)
        ? extendedBlocks(base.blocks, record.promptIds!, record.ids, route.pool.blockTokens)
        : base.blocks,
      expectedOutputTokens:
        base.expectedOutputTokens === null ? null : Math.max(1, base.expectedOutputTokens - record.tokens),
    }
  },
})

const isExact = (source: string): boolean => source !== 'bytes'

/** Blocks of prompt and output: the chain goes on from the last full block of the prompt. */
function extendedBlocks(
  blocks: Uint32Array,
  promptIds: Uint32Array,
  ids: Uint32Array,
  blockTokens: number,
): Uint32Array {
  const full = blocks.length >> 1
  // Without a full block the chain's seed is needed, and so little is not worth it.
  if (full === 0 || full !== Math.floor(promptIds.length / blockTokens)) return blocks
  const words = Uint32Array.of(...promptIds.subarray(full * blockTokens), ...ids)
  const state = { lo: blocks[blocks.length - 2]!, hi: blocks[blocks.length - 1]! }
  const more = chainBlocks(state, words, [0, words.length], blockTokens)
  const all = new Uint32Array(blocks.length + more.length)
  all.set(blocks)
  all.set(more, blocks.length)
  return all
}

async function continueByIds(attempt: AttemptContext, state: StreamState): Promise<HandoverEnd | FailedOutcome> {
  const { ports } = attempt
  const { request, record } = state
  const calls = callContextOf(attempt)
  const before = record.tokens
  const pending = await pendingText(record, calls)
  if (typeof pending === 'string') return { kind: 'refused', reason: pending, failed: attempt.earlier }
  const window = stopWindow(state)
  const found = window.addPending(pending.text)
  if (typeof found !== 'string') return { kind: 'finished', text: found.text, finish: 'stop', stop: found.stop }
  const input = {
    request,
    model: calls.model,
    promptIds: record.promptIds!,
    outputIds: record.ids,
    maxModelLen: needsModelLen(request) ? await maxModelLen(calls) : 0,
  }
  if (tokensLeft(input) <= 0) return { kind: 'finished', text: found + restOf(window), finish: 'length', stop: null }
  const dispatchedAt = ports.now()
  const answer = await send(attempt, calls, [new TextEncoder().encode(JSON.stringify(completionBody(input)))])
  if ('failure' in answer) return answer
  const dropped = before - record.tokens
  const byIds = { window, pending: found, dropped, calls }
  return { kind: 'moved', attempt, answer, dispatchedAt, byIds, tokens: record.tokens }
}

/** Sends the request. Returns the answer if it is a stream. Rejects with an OriginError. */
async function send(
  attempt: AttemptContext,
  { target, signal, timers }: CallContext,
  body: readonly Uint8Array[],
): Promise<OriginAnswer | FailedOutcome> {
  const { exchange, ports, placed } = attempt
  const { connectMs, firstByteMs } = placed.route.pool.limits
  const answer = await ports.origin.send({
    target,
    method: 'POST',
    path: exchange.path,
    headers: exchange.headers,
    body,
    connectMs,
    firstByteMs,
    protocol: null,
    expectsJson: false,
    expectsStream: true,
    signal,
    timers,
  })
  if (answer.status === 200 && answer.sse) return answer
  const refused = await classifyRefusal(attempt, { answer, engine: target, path: exchange.path })
  answer.discard()
  if (refused !== null && !keepsAnswer(refused)) return refused
  const tooLong = refused?.limitTokens === undefined ? {} : { limitTokens: refused.limitTokens }
  // An engine that rejects the request is healthy; another one may have the adapter or the room.
  return { engine: target, failure: 'busy', status: answer.status, ...tooLong }
}

/** Text that is held back; no stop string is complete in it. */
const restOf = (window: StopWindow): string => {
  const rest = window.end(null)
  return typeof rest === 'string' ? rest : rest.text
}

/** Before `min_tokens` an engine ignores stop strings. */
function stopWindow({ request, record }: StreamState): StopWindow {
  const { min_tokens: minTokens, include_stop_str_in_output: includes } = request.sampling
  const isEarly = typeof minTokens === 'number' && record.tokens < minTokens
  return new StopWindow(isEarly ? [] : request.stops, includes === true, record.tail)
}

function release({ exchange, placed, stages }: AttemptContext, failed: FailedOutcome | null): void {
  const isExcused = failed === null || failed.failure === 'gateway_limit'
  const failure: AttemptFailure | null = isExcused ? null : failed.failure
  const released = placed.booking.release({
    ...endedAs(isExcused ? 'abandoned' : 'engine_failed'),
    failure,
    failedEngine: isExcused ? null : placed.engine.id,
    status: failed?.status ?? null,
    stages: stages.snapshot(),
  })
  if (released !== null) exchange.scope.background(released)
}
