import { type Answer, type Incoming, json } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import type { PlanInput } from './answer-plan.ts'
import type { Body } from './body-fields.ts'
import { readMessages } from './read-messages.ts'
import { renderChat } from './render-chat.ts'
import { chatStream } from './chat-stream.ts'
import { type InferenceInput, modelOf } from './generation.ts'
import type { Choice } from './job.ts'
import { loadReport } from './load-report.ts'
import { tokenLogprobs } from './logprobs.ts'
import { readBody } from './read-body.ts'
import { kvTransferParams, openRequest, runWhole, type ServedRequest, totalsOfRequest } from './served-request.ts'
import { readSampling } from './sampling.ts'
import { checkResponseFormat } from './schema-check.ts'
import { FINGERPRINT, type Serving } from './serving.ts'
import { readStreamOptions } from './stream-options.ts'
import { metricsOf, usageOf } from './usage.ts'
import { badRequest } from './wire-error.ts'

/** POST /v1/chat/completions. */
export async function chatCompletions(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  const input = readChat(serving, body)
  const options = readStreamOptions(body)
  const request = await openRequest(serving, incoming, input, { prefix: 'chatcmpl-', options })
  if (options.stream) return chatStream(request)
  const { sequences, aborted } = await runWhole(request, incoming)
  return json(200, completion(request, sequences, aborted), loadReport(request, incoming))
}

/** Reads and renders a chat body. Throws a WireError. */
export function readChat(
  serving: Serving,
  body: Body,
  maxTokensKeys = ['max_completion_tokens', 'max_tokens'],
): InferenceInput {
  const messages = readMessages(body)
  const model = modelOf(serving, body)
  const tool = forcedTool(body)
  checkResponseFormat(body)
  const sampling = readSampling(body, maxTokensKeys)
  const { tokens, items } = renderChat(messages, {
    addGenerationPrompt: body['add_generation_prompt'] !== false,
    continueFinalMessage: body['continue_final_message'] === true,
    tools: body['tools'],
  })
  if (items.length > 0 && !serving.settings.multimodal) throw badRequest(`${model} is not a multimodal model`)
  return { body, model, prompts: [tokens], items, sampling, reasoning: wantsReasoning(body), tool }
}

function wantsReasoning(body: Body): boolean {
  const effort = body['reasoning_effort']
  return typeof effort === 'string' && effort !== 'none'
}

/** The function that `tool_choice` forces: the named one, or the first if any is required. */
function forcedTool(body: Body): PlanInput['tool'] {
  const choice = body['tool_choice']
  if (choice === undefined || choice === null || choice === 'none') return null
  if (!Array.isArray(body['tools']) || body['tools'].length === 0) {
    throw badRequest('When using `tool_choice`, `tools` must be set.', 'tool_choice')
  }
  if (choice === 'auto') return null
  const tools = body['tools'] as { function?: { name?: unknown; parameters?: unknown } }[]
  const wanted = typeof choice === 'object' ? (choice as { function?: { name?: unknown } }).function?.name : undefined
  const tool = tools.find((entry) => wanted === undefined || entry.function?.name === wanted)?.function
  if (typeof tool?.name !== 'string') {
    throw badRequest('The tool specified in `tool_choice` does not match any of the specified `tools`.', 'tool_choice')
  }
  return { name: tool.name, parameters: tool.parameters ?? { type: 'object' }, named: wanted !== undefined }
}

function completion(request: ServedRequest, sequences: readonly Sequence[], aborted: boolean): object {
  const { serving, input } = request
  const metrics = metricsOf(sequences)
  return {
    id: request.id,
    object: 'chat.completion',
    created: request.created,
    model: input.model,
    choices: request.choices.map((choice, at) => completionChoice(request, choice, sequences[at]!, aborted)),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: usageOf(totalsOfRequest(request, sequences), true),
    prompt_logprobs: null,
    prompt_token_ids: request.tokenIds ? Array.from(input.prompts[0]!) : null,
    prompt_text: null,
    kv_transfer_params: kvTransferParams(request, sequences, { aborted, requestId: request.id }),
    ec_transfer_params: null,
    metrics: serving.settings.perRequestMetrics && metrics !== null ? { ...metrics, speculative_decoding: null } : null,
  }
}

function completionChoice(request: ServedRequest, choice: Choice, sequence: Sequence, aborted: boolean): object {
  const { plan } = choice
  const { logprobs } = request.input.sampling
  // An aborted answer contains the tokens generated so far.
  const pieces = plan.pieces.slice(0, sequence.outputs)
  const text = pieces.slice(plan.reasoningTokens).join('')
  return {
    index: choice.index,
    message: {
      role: 'assistant',
      content: plan.tool === null ? text : '',
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      ...(plan.tool === null
        ? {}
        : {
            tool_calls: [{ id: plan.tool.id, type: 'function', function: { name: plan.tool.name, arguments: text } }],
          }),
      reasoning: plan.reasoningTokens > 0 ? pieces.slice(0, plan.reasoningTokens).join('') : null,
    },
    logprobs:
      logprobs === null
        ? null
        : { content: pieces.map((piece, at) => tokenLogprobs(piece, plan.tokens[at]!, logprobs)) },
    finish_reason: aborted ? 'abort' : plan.finish,
    stop_reason: plan.stopReason,
    token_ids: request.tokenIds ? Array.from(plan.tokens.subarray(0, sequence.outputs)) : null,
    routed_experts: null,
  }
}
