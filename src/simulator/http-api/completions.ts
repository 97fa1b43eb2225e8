import { json, type Answer, type Incoming, type Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { decode } from '../tokenizer.ts'
import { modelOf, type Choice } from './generation.ts'
import { readPrompts, type Prompt } from './pooling.ts'
import { readBody } from './read-body.ts'
import {
  handOver,
  loadReport,
  openReply,
  run,
  runWhole,
  totalsOfReply,
  type Reply,
  data,
  DONE,
  eventStream,
  readStreamOptions,
} from './reply.ts'
import { readSampling, completionLogprobs } from './sampling.ts'
import { FINGERPRINT, type Serving } from './serving.ts'
import { metricsOf, runningUsage, streamMetricsOf, streamUsageOf, usageOf } from './usage.ts'

interface CompletionReply extends Reply {
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
  const ask = {
    body,
    model,
    prompts: prompts.map(({ tokens }) => tokens),
    items: [],
    sampling,
    reasoning: false,
    tool: null,
  }
  const reply = {
    ...(await openReply(serving, incoming, ask, { prefix: 'cmpl-', options })),
    prompts,
    echo: body['echo'] === true,
  }
  if (options.stream) return stream(reply)
  const { sequences, aborted } = await runWhole(reply, incoming)
  return json(200, completion(reply, sequences, aborted), loadReport(reply, incoming))
}

const promptOf = (reply: CompletionReply, choice: Choice): Prompt =>
  reply.prompts[Math.floor(choice.index / reply.ask.sampling.n)]!
const echoed = (reply: CompletionReply, choice: Choice): string => {
  if (!reply.echo) return ''
  const prompt = promptOf(reply, choice)
  return prompt.text ?? decode(prompt.tokens)
}

function completion(reply: CompletionReply, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving, ask } = reply
  const metrics = metricsOf(sequences)
  return {
    id: reply.id,
    object: 'text_completion',
    created: reply.created,
    model: ask.model,
    choices: reply.choices.map((choice, at) => completionChoice(reply, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: usageOf(totalsOfReply(reply, sequences), false),
    kv_transfer_params: handOver(reply, sequences, {
      aborted,
      requestId: serving.settings.connector === 'nixl' ? `${reply.id}-0` : reply.id,
    }),
    ec_transfer_params: null,
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function completionChoice(reply: CompletionReply, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  const { logprobs } = reply.ask.sampling
  const pieces = plan.pieces.slice(0, sequence.outputs)
  const before = echoed(reply, choice)
  return {
    index: choice.index,
    text: before + pieces.join(''),
    logprobs: logprobs === null ? null : completionLogprobs(pieces, plan.tokens, logprobs, before.length),
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: reply.tokenIds ? Array.from(plan.tokens.subarray(0, sequence.outputs)) : null,
    prompt_logprobs: null,
    prompt_token_ids: reply.tokenIds ? Array.from(promptOf(reply, choice).tokens) : null,
    routed_experts: null,
  }
}

const chunk = (reply: CompletionReply, choices: readonly object[]): object => ({
  id: reply.id,
  object: 'text_completion',
  created: reply.created,
  model: reply.ask.model,
  choices,
})

function stream(reply: CompletionReply): Answer {
  return eventStream((sink) =>
    run(reply, {
      token: (choice, count) =>
        writeToken(reply, sink, choice, {
          count,
          finish: count === choice.plan.tokens.length ? choice.plan.finish : null,
        }),
      done: (sequences, aborted) => {
        if (aborted) for (const choice of reply.choices) writeToken(reply, sink, choice, { count: 0, finish: 'abort' })
        if (reply.options.includeUsage) sink.write(data(usageRecord(reply, sequences)))
        sink.write(DONE)
        sink.end()
      },
    }),
  )
}

/** Writes the record of the `count`-th token, or of none (0) if the engine aborted. */
function writeToken(
  reply: CompletionReply,
  sink: Sink,
  choice: Choice,
  { count, finish }: { count: number; finish: string | null },
): void {
  const { plan } = choice
  const { logprobs } = reply.ask.sampling
  const piece = plan.pieces[count - 1] ?? ''
  const first = count === 1
  const entry = {
    index: choice.index,
    text: first ? echoed(reply, choice) + piece : piece,
    logprobs:
      logprobs === null || count === 0
        ? null
        : completionLogprobs([piece], plan.tokens.subarray(count - 1, count), logprobs, 0),
    finish_reason: finish,
    stop_reason: finish === null ? null : plan.stopReason,
    prompt_token_ids: first && (reply.tokenIds || reply.echo) ? Array.from(promptOf(reply, choice).tokens) : null,
    token_ids: reply.tokenIds && count > 0 ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...chunk(reply, [entry]),
      ...(reply.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}),
      ...(finish === null || reply.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function usageRecord(reply: CompletionReply, sequences: readonly Sequence[]): object {
  const { serving } = reply
  return {
    ...chunk(reply, []),
    usage: streamUsageOf(totalsOfReply(reply, sequences), false),
    system_fingerprint: FINGERPRINT,
    ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
  }
}
