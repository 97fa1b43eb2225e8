import type { Answer, Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import type { Choice } from './job.ts'
import { tokenLogprobs } from './logprobs.ts'
import { run, totalsOfReply, type Reply } from './reply.ts'
import { FINGERPRINT } from './serving.ts'
import { data, DONE, eventStream } from './sse.ts'
import { runningUsage, streamMetricsOf, streamUsageOf } from './usage.ts'

/** The SSE answer of a chat: role record, one record a token, usage record, [DONE]. Nothing is sent before the first token. */
export function chatStream(reply: Reply): Answer {
  return eventStream((sink) => {
    let opened = false
    return run(reply, {
      token: (choice, count) => {
        if (!opened) for (const each of reply.choices) writeRole(reply, sink, each)
        opened = true
        writeToken(reply, sink, choice, count)
      },
      done: (sequences, aborted) => finish(reply, sink, sequences, aborted),
    })
  })
}

const chunk = (reply: Reply, choices: readonly object[]): object => ({
  id: reply.id,
  object: 'chat.completion.chunk',
  created: reply.created,
  model: reply.ask.model,
  choices,
})

const usage = (reply: Reply, choice: Choice, count: number): object =>
  reply.options.continuousUsage ? { usage: runningUsage(choice.spec.promptTokens, count) } : {}

function writeRole(reply: Reply, sink: Sink, choice: Choice): void {
  sink.write(
    data({
      ...chunk(reply, [{ index: choice.index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }]),
      ...usage(reply, choice, 0),
      prompt_token_ids: reply.tokenIds ? Array.from(reply.ask.prompts[0]!) : null,
      prompt_text: null,
    }),
  )
}

function writeToken(reply: Reply, sink: Sink, choice: Choice, count: number): void {
  const { plan } = choice
  const piece = plan.pieces[count - 1] ?? ''
  const last = count === plan.tokens.length
  if (plan.tool !== null) {
    const { id, name } = plan.tool
    if (count === 1) writeDelta(reply, sink, choice, { count, delta: toolDelta({ id, type: 'function', index: 0, function: { name } }) })
    writeDelta(reply, sink, choice, { count, delta: toolDelta({ index: 0, function: { arguments: piece } }) })
    if (last) writeDelta(reply, sink, choice, { count, delta: {}, finish: plan.finish })
    return
  }
  const delta = count <= plan.reasoningTokens ? { reasoning: piece } : { content: piece }
  writeDelta(reply, sink, choice, last ? { count, delta, finish: plan.finish } : { count, delta })
}

const toolDelta = (call: object): object => ({ content: null, tool_calls: [call] })

function writeDelta(reply: Reply, sink: Sink, choice: Choice, what: { count: number; delta: object; finish?: string }): void {
  const { plan, index } = choice
  const { count, delta, finish: ended } = what
  const { logprobs } = reply.ask.sampling
  const entry = {
    index,
    delta,
    logprobs: logprobs === null ? null : { content: [tokenLogprobs(plan.pieces[count - 1] ?? '', plan.tokens[count - 1]!, logprobs)] },
    finish_reason: ended ?? null,
    ...(ended === undefined ? {} : { stop_reason: plan.stopReason }),
    token_ids: reply.tokenIds ? [plan.tokens[count - 1]!] : null,
  }
  sink.write(
    data({
      ...chunk(reply, [entry]),
      ...usage(reply, choice, count),
      // Where no usage record follows, the last record carries it.
      ...(ended === undefined || reply.options.includeUsage ? {} : { system_fingerprint: FINGERPRINT }),
    }),
  )
}

function finish(reply: Reply, sink: Sink, sequences: readonly Sequence[], aborted: boolean): void {
  const { serving, choices, options } = reply
  if (aborted) for (const choice of choices) writeDelta(reply, sink, choice, { count: 1, delta: { content: '' }, finish: 'abort' })
  if (options.includeUsage) {
    sink.write(
      data({
        ...chunk(reply, []),
        usage: streamUsageOf(totalsOfReply(reply, sequences), true),
        system_fingerprint: FINGERPRINT,
        ...(serving.settings.perRequestMetrics ? streamMetricsOf(sequences) : {}),
      }),
    )
  }
  sink.write(DONE)
  sink.end()
}
