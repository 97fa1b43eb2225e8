import type { Incoming, Answer, BodyStream } from '../answer.ts'
import type { Fields, KvLeg } from '../kv-connector.ts'
import type { Sequence } from '../sequence.ts'
import { reportFirstToken } from '../ttft-reporter.ts'
import { prepare, type Ask, runJob, type Choice, type JobEvents } from './generation.ts'
import type { Serving } from './serving.ts'
import { totalsOf, type Totals } from './usage.ts'
import { flagOf, type Body } from './sampling.ts'
import { badRequest } from './wire-error.ts'

export interface StreamOptions {
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
}

export function readStreamOptions(body: Body): StreamOptions {
  const stream = flagOf(body, 'stream')
  const options = body['stream_options']
  if (options === undefined || options === null) return { stream, includeUsage: false, continuousUsage: false }
  if (!stream) throw badRequest('Stream options can only be defined when `stream=True`.', 'stream_options')
  const fields = options as Body
  return {
    stream,
    includeUsage: fields['include_usage'] === true,
    continuousUsage: fields['continuous_usage_stats'] === true,
  }
}

export const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
export const event = (type: string, value: unknown): string => `event: ${type}\ndata: ${JSON.stringify(value)}\n\n`
export const DONE = 'data: [DONE]\n\n'

export const eventStream = (body: BodyStream): Answer => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  body,
})

/** A validated and planned request. */
export interface Reply {
  readonly serving: Serving
  readonly ask: Ask
  readonly id: string
  /** Seconds since the epoch. */
  readonly created: number
  readonly choices: readonly Choice[]
  readonly leg: KvLeg
  readonly options: StreamOptions
  /** `return_token_ids`. */
  readonly tokenIds: boolean
}

/**
 * Validates and plans a request. `prefix` starts the answer's id, which contains the client's x-request-id. Throws a
 * WireError.
 */
export async function openReply(
  serving: Serving,
  incoming: Incoming,
  ask: Ask,
  how: { prefix: string; options: StreamOptions },
): Promise<Reply> {
  const { choices, leg } = await prepare(serving, ask)
  return {
    serving,
    ask,
    id: `${how.prefix}${incoming.headers.get('x-request-id') ?? serving.newId()}`,
    created: Math.floor(serving.clock.now() / 1000),
    choices,
    leg,
    options: how.options,
    tokenIds: ask.body['return_token_ids'] === true,
  }
}

/**
 * Runs the choices and records metrics, and publishes the KV transfer at the first token. The returned function
 * aborts.
 */
export function run(reply: Reply, events: JobEvents): () => void {
  const { serving, leg } = reply
  let read = leg.kind !== 'decode'
  const finishRead = (): void => {
    if (!read && leg.kind === 'decode') leg.done()
    read = true
  }
  return runJob(serving.driver, reply.choices, {
    token: (choice, count, sequence) => {
      finishRead()
      // For a request with several choices, the first is reported.
      if (count === 1 && choice.index === 0 && serving.report !== null)
        reportFirstToken(serving.report, serving.settings.role, reply.id, sequence)
      events.token?.(choice, count, sequence)
    },
    done: (sequences, aborted) => {
      finishRead()
      serving.metrics.ended(reply.choices, sequences, reply.ask.sampling.maxTokens)
      events.done(sequences, aborted)
    },
  })
}

/** Runs to the end. Never resolves if the client disconnects. */
export function runWhole(
  reply: Reply,
  incoming: Incoming,
): Promise<{ sequences: readonly Sequence[]; aborted: boolean }> {
  return new Promise((resolve) => {
    const cancel = run(reply, { done: (sequences, aborted) => resolve({ sequences, aborted }) })
    if (incoming.signal.aborted) cancel()
    incoming.signal.addEventListener('abort', cancel, { once: true })
  })
}

/** `kv_transfer_params` of a prefill leg's answer. `requestId` is the request's id among engines. */
export function handOver(
  reply: Reply,
  sequences: readonly Sequence[],
  { aborted, requestId }: { aborted: boolean; requestId: string },
): Fields | null {
  const { serving, ask, leg, choices } = reply
  if (leg.kind !== 'prefill' || aborted) return null
  return serving.kv!.publish({
    requestId,
    sequence: sequences[0]!,
    prompt: ask.prompts[0]!,
    firstToken: choices[0]!.plan.tokens[0]!,
    body: ask.body,
  })
}

export const totalsOfReply = (reply: Reply, sequences: readonly Sequence[]): Totals =>
  totalsOf(reply.choices, sequences, reply.ask.prompts.length, reply.serving.settings.limits.blockTokens)

/** Formats a float as Python does. */
const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))

/** ORCA load report in the headers of a non-streaming answer, if requested. */
export function loadReport({ serving }: Reply, incoming: Incoming): Readonly<Record<string, string>> {
  const format = incoming.headers.get('endpoint-load-metrics-format')
  if (format === undefined) return {}
  const { model } = serving.driver
  const entries = Object.entries({ num_requests_waiting: model.waiting, kv_cache_usage_perc: model.usage })
  const text =
    format.toUpperCase() === 'JSON'
      ? `JSON {"named_metrics": {${entries.map(([key, value]) => `"${key}": ${float(value)}`).join(', ')}}}`
      : `TEXT ${entries.map(([key, value]) => `named_metrics.${key}=${float(value)}`).join(', ')}`
  return { 'endpoint-load-metrics': text }
}
