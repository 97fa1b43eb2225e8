import { type Answer, type Incoming, json, type Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { decode } from '../tokenizer.ts'
import { modelOf } from './generation.ts'
import type { Choice } from './job.ts'
import { loadReport } from './load-report.ts'
import { completionLogprobs } from './logprobs.ts'
import { type Prompt, readPrompts } from './prompts.ts'
import { readBody } from './read-body.ts'
import { kvTransferParams, openRequest, run, runWhole, type ServedRequest, totalsOfRequest } from './served-request.ts'
import { readSampling } from './sampling.ts'
import { FINGERPRINT, type Serving } from './serving.ts'
import { data, DONE, eventStream } from './sse.ts'
import { readStreamOptions } from './stream-options.ts'
import { metricsOf, runningUsage, streamMetricsOf, streamUsageOf, usageOf } from './usage.ts'

interface CompletionRequest extends ServedRequest {
  readonly prompts: readonly Prompt[]
  readonly echo: boolean
}

/** POST /v1/completions. */
export async function completions(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const model = modelOf(serving, body)
  const prompts = readPrompts(serving, body)
  const options = readStreamOptions(body)
  // vLLM's default for this endpoint, as in OpenAI's API.
  const sampling = readSampling({ max_tokens: 16, ...body }, ['max_tokens'])
  const input = {
    body,
    model,
    prompts: prompts.map(({ tokens }) => tokens),
    items: [],
    sampling,
    reasoning: false,
    tool: null,
  }
  const request = {
    ...(await openRequest(serving, incoming, input, { prefix: 'cmpl-', options })),
    prompts,
    echo: body['echo'] === true,
  }
  if (options.stream) return stream(request)
  const { sequences, aborted } = await runWhole(request, incoming)
  return json(200, textCompletion(request, sequences, aborted), loadReport(request, incoming))
}

const promptOf = (request: CompletionRequest, choice: Choice): Prompt =>
  request.prompts[Math.floor(choice.index / request.input.sampling.n)]!

const echoed = (request: CompletionRequest, choice: Choice): string => {
  if (!request.echo) return ''
  const prompt = promptOf(request, choice)
  return prompt.text ?? decode(prompt.tokens)
}

function textCompletion(request: CompletionRequest, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving, input } = request
  const metrics = metricsOf(sequences)
  return {
    id: request.id,
    object: 'text_completion',
    created: request.created,
    model: input.model,
    choices: request.choices.map((choice, at) => textChoice(request, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: usageOf(totalsOfRequest(request, sequences), false),
    kv_transfer_params: kvTransferParams(request, sequences, {
      aborted,
      requestId: serving.settings.connector === 'nixl' ? `${request.id}-0` : request.id,
    }),
    ec_transfer_params: null,
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function textChoice(request: CompletionRequest, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  const { logprobs } = request.input.sampling
  const pieces = plan.pieces.slice(0, sequence.outputs)
  const before = echoed(request, choice)
  return {
    index: choice.index,
    text: before + pieces.join(''),
    logprobs: logprobs === null ? null : completionLogprobs(pieces, plan.tokens, logprobs, before.length),
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: request.tokenIds ? Array.from(plan.tokens.subarray(0, sequence.outputs)) : null,
    prompt_logprobs: null,
    prompt_token_ids: request.tokenIds ? Array.from(promptOf(request, choice).tokens) : null,
    routed_experts: null,
  }
}

const textChunk = (request: CompletionRequest, choices: readonly object[]): object => ({
  id: request.id,
  object: 'text_completion',
  created: request.created,
  model: request.input.model,
  choices,
})

function stream(request: CompletionRequest): Answer {
  return eventStream((sink) =>
    run(request, {
      token: (choice, count) =>
        writeTextToken(request, sink, choice, {
          count,
          finish: count === choice.plan.tokens.length ? choice.plan.finish : null,
        }),
      done: (sequences, aborted) => {
        if (aborted)
          for (const choice of request.choices) writeTextToken(request, sink, choice, { count: 0, finish: 'abort' })
        if (request.options.includeUsage) sink.write(data(usageRecord(request, sequences)))
        sink.write(DONE)
        sink.end()
      },
    }),
  )
}

/** Writes the record of the `count`-th token, or of none (0) if the engine aborted. */
function writeTextToken(
  request: CompletionRequest,
  sink: Sink,
  choice: Choice,
  { count, finish }: { count: number; finish: string | null },
): void {
  const { plan } = choice
  const { logprobs } = request.input.sampling
  const piece = plan.pieces[count - 1] ?? ''
  const first = count === 1
  const entry = {
    index: choice.index,
    text: first ? echoed(request, choice) + piece : piece,
    logprobs:
      logprobs === null || count === 0
        ? null
        : completionLogprobs([piece], plan.tokens.subarray(count - 1, count), logprobs, 0),
    finish_reason: finish,
    stop_reason: finish === null ? null : plan.stopReason,
    prompt_token_ids: first && (request.tokenIds || request.echo) ? Array.from(promptOf(request, choice).tokens) : null,
    token_ids: request.tokenIds && count > 0 ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...textChunk(request, [entry]),
      ...(request.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}),
      ...(finish === null || request.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function usageRecord(request: CompletionRequest, sequences: readonly Sequence[]): object {
  const { serving } = request
  return {
    ...textChunk(request, []),
    usage: streamUsageOf(totalsOfRequest(request, sequences), false),
    system_fingerprint: FINGERPRINT,
    ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
  }
}
