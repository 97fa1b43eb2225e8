import type { Answer, Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import type { Choice } from './job.ts'
import { tokenLogprobs } from './logprobs.ts'
import { run, type ServedRequest, totalsOfRequest } from './served-request.ts'
import { FINGERPRINT } from './serving.ts'
import { data, DONE, eventStream } from './sse.ts'
import { runningUsage, streamMetricsOf, streamUsageOf } from './usage.ts'

/** Streams a chat: role record, one record per token, usage record, [DONE]. Nothing is sent before the first token. */
export function chatStream(request: ServedRequest): Answer {
  return eventStream((sink) => {
    let opened = false
    return run(request, {
      token: (choice, count) => {
        if (!opened) for (const each of request.choices) writeRole(request, sink, each)
        opened = true
        writeToken(request, sink, choice, count)
      },
      done: (sequences, aborted) => finishChat(request, sink, sequences, aborted),
    })
  })
}

const chunk = (request: ServedRequest, choices: readonly object[]): object => ({
  id: request.id,
  object: 'chat.completion.chunk',
  created: request.created,
  model: request.input.model,
  choices,
})

const usage = (request: ServedRequest, choice: Choice, count: number): object =>
  request.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}

function writeRole(request: ServedRequest, sink: Sink, choice: Choice): void {
  sink.write(
    data({
      ...chunk(request, [
        { index: choice.index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
      ]),
      ...usage(request, choice, 0),
      prompt_token_ids: request.tokenIds ? Array.from(request.input.prompts[0]!) : null,
      prompt_text: null,
    }),
  )
}

function writeToken(request: ServedRequest, sink: Sink, choice: Choice, count: number): void {
  const { plan } = choice
  const piece = plan.pieces[count - 1] ?? ''
  const last = count === plan.tokens.length
  if (plan.tool !== null) {
    const { id, name } = plan.tool
    if (count === 1)
      writeDelta(request, sink, choice, {
        count,
        delta: toolDelta({ id, type: 'function', index: 0, function: { name } }),
      })
    writeDelta(request, sink, choice, { count, delta: toolDelta({ index: 0, function: { arguments: piece } }) })
    if (last) writeDelta(request, sink, choice, { count, delta: {}, finish: plan.finish })
    return
  }
  const delta = count <= plan.reasoningTokens ? { reasoning: piece } : { content: piece }
  writeDelta(request, sink, choice, last ? { count, delta, finish: plan.finish } : { count, delta })
}

const toolDelta = (call: object): object => ({ content: null, tool_calls: [call] })

function writeDelta(
  request: ServedRequest,
  sink: Sink,
  choice: Choice,
  what: { count: number; delta: object; finish?: string },
): void {
  const { plan, index } = choice
  const { count, delta, finish: ended } = what
  const { logprobs } = request.input.sampling
  const entry = {
    index,
    delta,
    logprobs:
      logprobs === null
        ? null
        : { content: [tokenLogprobs(plan.pieces[count - 1] ?? '', plan.tokens[count - 1]!, logprobs)] },
    finish_reason: ended ?? null,
    ...(ended === undefined ? {} : { stop_reason: plan.stopReason }),
    token_ids: request.tokenIds ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...chunk(request, [entry]),
      ...usage(request, choice, count),
      // Without a usage record, the last record carries the fingerprint.
      ...(ended === undefined || request.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function finishChat(request: ServedRequest, sink: Sink, sequences: readonly Sequence[], aborted: boolean): void {
  const { serving, choices, options } = request
  if (aborted)
    for (const choice of choices)
      writeDelta(request, sink, choice, { count: 1, delta: { content: '' }, finish: 'abort' })
  if (options.includeUsage) {
    sink.write(
      data({
        ...chunk(request, []),
        usage: streamUsageOf(totalsOfRequest(request, sequences), true),
        system_fingerprint: FINGERPRINT,
        ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
      }),
    )
  }
  sink.write(DONE)
  sink.end()
}
