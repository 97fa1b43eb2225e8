import { json, type Answer, type Incoming } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import type { PlanInput } from './answer-plan.ts'
import { renderChat } from './chat-template.ts'
import { chatStream } from './chat-stream.ts'
import { answerHeaders, type Reply } from './reply.ts'
import { modelOf, prepare, type Ask } from './generation.ts'
import { runJob, type Choice } from './job.ts'
import { tokenLogprobs } from './logprobs.ts'
import { missing, readBody } from './read-body.ts'
import { readSampling, type Body } from './sampling.ts'
import type { Serving } from './serving.ts'
import { readStreamOptions } from './stream-options.ts'
import { metricsOf, totalsOf, usageOf } from './usage.ts'
import { badRequest } from './wire-error.ts'

/** POST /v1/chat/completions. */
export async function chatCompletions(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const ask = readChat(serving, body)
  const options = readStreamOptions(body)
  const { choices, leg } = await prepare(serving, ask)
  const requestId = incoming.headers.get('x-request-id') ?? serving.newId()
  const reply: Reply = {
    serving,
    id: `chatcmpl-${requestId}`,
    created: Math.floor(serving.clock.now() / 1000),
    model: ask.model,
    choices,
    leg,
    promptCount: 1,
    options,
    logprobs: ask.sampling.logprobs,
  }
  return options.stream ? chatStream(reply) : whole(reply, incoming)
}

/** Reads and renders a chat body. Throws a WireError. */
export function readChat(serving: Serving, body: Body): Ask {
  const model = modelOf(serving, body)
  const { messages } = body
  if (!Array.isArray(messages)) throw missing('messages', body)
  const sampling = readSampling(body, ['max_completion_tokens', 'max_tokens'])
  const { tokens, items } = renderChat(messages, {
    addGenerationPrompt: body['add_generation_prompt'] !== false,
    continueFinalMessage: body['continue_final_message'] === true,
    tools: body['tools'],
  })
  return { body, model, prompts: [tokens], items, sampling, reasoning: wantsReasoning(body), tool: forcedTool(body) }
}

function wantsReasoning(body: Body): boolean {
  const effort = body['reasoning_effort']
  return typeof effort === 'string' && effort !== 'none'
}

/** The function that `tool_choice` forces: a named one, or the first when any is required. */
function forcedTool(body: Body): PlanInput['tool'] {
  const choice = body['tool_choice']
  if (choice === undefined || choice === null || choice === 'auto' || choice === 'none') return null
  const tools = Array.isArray(body['tools']) ? (body['tools'] as { function?: { name?: unknown; parameters?: unknown } }[]) : []
  const wanted = typeof choice === 'object' ? (choice as { function?: { name?: unknown } }).function?.name : undefined
  const tool = tools.find((entry) => wanted === undefined || entry.function?.name === wanted)?.function
  if (typeof tool?.name !== 'string') throw badRequest('`tool_choice` names a tool that `tools` does not have.', 'tool_choice')
  return { name: tool.name, parameters: tool.parameters ?? { type: 'object' }, named: wanted !== undefined }
}

function whole(reply: Reply, incoming: Incoming): Promise<Answer> {
  return new Promise((resolve) => {
    const cancel = runJob(reply.serving.driver, reply.choices, {
      done: (sequences, aborted) => {
        reply.choices.forEach((choice, at) => reply.serving.metrics.ended(sequences[at]!, choice.plan.finish === 'length' ? 'length' : 'stop'))
        if (reply.leg.kind === 'decode') reply.leg.done()
        resolve(json(200, completion(reply, sequences, aborted), answerHeaders(reply, incoming)))
      },
    })
    incoming.signal.addEventListener('abort', cancel, { once: true })
  })
}

function completion(reply: Reply, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving } = reply
  const metrics = metricsOf(sequences)
  const [first] = sequences
  return {
    id: reply.id,
    object: 'chat.completion',
    created: reply.created,
    model: reply.model,
    choices: reply.choices.map((choice, at) => completionChoice(reply, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: serving.fingerprint,
    usage: usageOf(totalsOf(reply.choices, sequences, reply.promptCount)),
    prompt_logprobs: null,
    prompt_token_ids: null,
    prompt_text: null,
    kv_transfer_params: reply.leg.kind === 'prefill' && !aborted ? serving.kv!.publish(reply.id, first!) : null,
    ec_transfer_params: null,
    metrics: serving.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function completionChoice(reply: Reply, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  // An aborted answer has what was generated until then.
  const text = plan.pieces.slice(plan.reasoningTokens, Math.max(plan.reasoningTokens, sequence.outputs)).join('')
  const reasoning = plan.pieces.slice(0, Math.min(plan.reasoningTokens, sequence.outputs)).join('')
  const message = {
    role: 'assistant',
    content: plan.tool === null ? text : '',
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    ...(plan.tool === null
      ? {}
      : { tool_calls: [{ id: plan.tool.id, type: 'function', function: { name: plan.tool.name, arguments: text } }] }),
    reasoning: plan.reasoningTokens > 0 ? reasoning : null,
  }
  return {
    index: choice.index,
    message,
    logprobs: reply.logprobs === null ? null : { content: plan.pieces.map((piece, at) => tokenLogprobs(piece, plan.tokens[at]!, reply.logprobs!)) },
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: null,
    routed_experts: null,
  }
}
