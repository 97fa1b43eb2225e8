import type { Incoming } from '../answer.ts'
import type { Fields, KvLeg } from '../kv-connector.ts'
import type { Sequence } from '../sequence.ts'
import { reportFirstToken } from '../ttft-reporter.ts'
import { type InferenceInput, prepare } from './generation.ts'
import { type Choice, type JobEvents, runJob } from './job.ts'
import type { Serving } from './serving.ts'
import type { StreamOptions } from './stream-options.ts'
import { type Totals, totalsOf } from './usage.ts'

/** A validated and planned request. */
export interface ServedRequest {
  readonly serving: Serving
  readonly input: InferenceInput
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
export async function openRequest(
  serving: Serving,
  incoming: Incoming,
  input: InferenceInput,
  how: { prefix: string; options: StreamOptions },
): Promise<ServedRequest> {
  const { choices, leg } = await prepare(serving, input)
  return {
    serving,
    input,
    id: `${how.prefix}${incoming.headers.get('x-request-id') ?? serving.newId()}`,
    created: Math.floor(serving.clock.now() / 1000),
    choices,
    leg,
    options: how.options,
    tokenIds: input.body['return_token_ids'] === true,
  }
}

/**
 * Runs the choices and records metrics, and publishes the KV transfer at the first token. The returned function
 * aborts.
 */
export function run(request: ServedRequest, events: JobEvents): () => void {
  const { serving, leg } = request
  let read = leg.kind !== 'decode'
  const finishRead = (): void => {
    if (!read && leg.kind === 'decode') leg.done()
    read = true
  }
  return runJob(serving.driver, request.choices, {
    token: (choice, count, sequence) => {
      finishRead()
      // For a request with several choices, the first is reported.
      if (count === 1 && choice.index === 0 && serving.report !== null)
        reportFirstToken(serving.report, serving.settings.role, request.id, sequence)
      events.token?.(choice, count, sequence)
    },
    done: (sequences, aborted) => {
      finishRead()
      serving.metrics.ended(request.choices, sequences, request.input.sampling.maxTokens)
      events.done(sequences, aborted)
    },
  })
}

/** Runs to the end. Never resolves if the client disconnects. */
export function runWhole(
  request: ServedRequest,
  incoming: Incoming,
): Promise<{ sequences: readonly Sequence[]; aborted: boolean }> {
  return new Promise((resolve) => {
    const cancel = run(request, { done: (sequences, aborted) => resolve({ sequences, aborted }) })
    if (incoming.signal.aborted) cancel()
    incoming.signal.addEventListener('abort', cancel, { once: true })
  })
}

/** `kv_transfer_params` of a prefill leg's answer. `requestId` is the request's id among engines. */
export function kvTransferParams(
  request: ServedRequest,
  sequences: readonly Sequence[],
  { aborted, requestId }: { aborted: boolean; requestId: string },
): Fields | null {
  const { serving, input, leg, choices } = request
  if (leg.kind !== 'prefill' || aborted) return null
  return serving.kv!.publish({
    requestId,
    sequence: sequences[0]!,
    prompt: input.prompts[0]!,
    firstToken: choices[0]!.plan.tokens[0]!,
    body: input.body,
  })
}

export const totalsOfRequest = (request: ServedRequest, sequences: readonly Sequence[]): Totals =>
  totalsOf(request.choices, sequences, request.input.prompts.length, request.serving.settings.limits.blockTokens)
