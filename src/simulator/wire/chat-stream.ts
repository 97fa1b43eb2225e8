import type { Answer, Sink } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { runJob, type Choice } from './job.ts'
import { tokenLogprobs } from './logprobs.ts'
import type { Reply } from './reply.ts'
import { data, DONE, eventStream } from './sse.ts'
import { metricsOf, streamUsageOf, totalsOf } from './usage.ts'

/** The SSE answer of a chat: role record, one record a token, usage record, [DONE]. Nothing is sent before the first token. */
export function chatStream(reply: Reply): Answer {
  return eventStream((sink) => {
    let opened = false
    return runJob(reply.serving.driver, reply.choices, {
      token: (choice, count) => {
        if (!opened) {
          opened = true
          if (reply.leg.kind === 'decode') reply.leg.done()
          for (const { index } of reply.choices) sink.write(data(roleChunk(reply, index)))
        }
        writeToken(reply, sink, choice, count)
      },
      done: (sequences, aborted) => finish(reply, sink, sequences, aborted),
    })
  })
}

function finish(reply: Reply, sink: Sink, sequences: readonly Sequence[], aborted: boolean): void {
  const { serving, choices, options } = reply
  choices.forEach(({ plan }, at) => serving.metrics.ended(sequences[at]!, plan.finish === 'length' ? 'length' : 'stop'))
  if (aborted) {
    for (const { index } of choices) sink.write(data(chunk(reply, [{ index, delta: { content: '' }, logprobs: null, finish_reason: 'abort', stop_reason: null, token_ids: null }])))
  }
  if (options.includeUsage) {
    const metrics = metricsOf(sequences)
    sink.write(
      data({
        ...chunk(reply, []),
        usage: streamUsageOf(totalsOf(choices, sequences, reply.promptCount)),
        system_fingerprint: serving.fingerprint,
        ...(serving.perRequestMetrics && metrics !== null ? { metrics } : {}),
      }),
    )
  }
  sink.write(DONE)
  sink.end()
}

const chunk = (reply: Reply, choices: readonly object[]): object => ({
  id: reply.id,
  object: 'chat.completion.chunk',
  created: reply.created,
  model: reply.model,
  choices,
})

const roleChunk = (reply: Reply, index: number): object => ({
  ...chunk(reply, [{ index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }]),
  prompt_token_ids: null,
})

function writeToken(reply: Reply, sink: Sink, choice: Choice, count: number): void {
  const { plan, index } = choice
  const last = count === plan.tokens.length
  const piece = plan.pieces[count - 1] ?? ''
  const logprobs =
    reply.logprobs === null ? null : { content: [tokenLogprobs(piece, plan.tokens[count - 1]!, reply.logprobs)] }
  const entry = {
    index,
    delta: deltaOf(choice, piece, count),
    logprobs,
    finish_reason: last ? plan.finish : null,
    ...(last ? { stop_reason: plan.stopReason } : {}),
    token_ids: null,
  }
  const record = chunk(reply, [entry])
  sink.write(data(reply.options.continuousUsage ? { ...record, usage: runningUsage(choice, count) } : record))
}

function deltaOf({ plan }: Choice, piece: string, count: number): object {
  if (plan.tool !== null) {
    const { id, name } = plan.tool
    const call =
      count === 1
        ? { id, type: 'function', index: 0, function: { name, arguments: piece } }
        : { index: 0, function: { arguments: piece } }
    return { tool_calls: [call] }
  }
  return count <= plan.reasoningTokens ? { reasoning: piece } : { content: piece }
}

const runningUsage = (choice: Choice, count: number): object => ({
  prompt_tokens: choice.spec.promptTokens,
  total_tokens: choice.spec.promptTokens + count,
  completion_tokens: count,
})
