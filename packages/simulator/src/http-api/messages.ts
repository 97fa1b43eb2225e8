import { json, type Answer, type Incoming } from '../answer.ts'
import type { Sequence } from '../sequence.ts'
import { readChat } from './chat.ts'
import { readBody } from './read-body.ts'
import { kvTransferParams, openRequest, run, runWhole, totalsOfRequest, type ServedRequest } from './served-request.ts'
import { event, eventStream } from './sse.ts'
import { flagOf, type Body } from './body-fields.ts'
import type { Serving } from './serving.ts'
import { tokensOf } from './tokenize.ts'
import { badRequest, missing } from './wire-error.ts'

/** POST /v1/messages: Anthropic's form of a chat. */
export async function messages(serving: Serving, incoming: Incoming): Promise<Answer> {
  const body = readBody(incoming)
  if (body['max_tokens'] === undefined) throw missing('max_tokens', body)
  checkThinking(body)
  const stream = flagOf(body, 'stream')
  const input = readChat(serving, asChat(body), ['max_tokens'])
  const options = { stream, includeUsage: false, continuousUsage: false }
  const request = await openRequest(serving, incoming, input, { prefix: 'chatcmpl-', options })
  if (stream) return messageStream(request)
  const { sequences, aborted } = await runWhole(request, incoming)
  return json(200, message(request, sequences, aborted))
}

/** Prefill legs are exempt since vLLM 0.32, because their one token is no answer. */
function checkThinking({ thinking, max_tokens: maxTokens, kv_transfer_params: params }: Body): void {
  const { type, budget_tokens: budget } = (thinking ?? {}) as { type?: unknown; budget_tokens?: unknown }
  if (type !== 'enabled' || (params as { do_remote_decode?: unknown } | null | undefined)?.do_remote_decode === true)
    return
  if (Number(budget) >= Number(maxTokens)) throw badRequest('thinking.budget_tokens must be less than max_tokens', null)
}

/** POST /v1/messages/count_tokens. */
export function countTokens(_serving: Serving, incoming: Incoming): Answer {
  const count = tokensOf(asChat(readBody(incoming))).length
  return json(200, { input_tokens: count, context_management: { original_input_tokens: count } })
}

/** Converts Anthropic's body to OpenAI's. */
function asChat(body: Body): Body {
  const system = body['system']
  const tools = body['tools']
  const choice = body['tool_choice'] as { type?: unknown; name?: unknown } | undefined
  return {
    ...body,
    ...(system === undefined
      ? {}
      : { messages: [{ role: 'system', content: system }, ...((body['messages'] ?? []) as unknown[])] }),
    ...(Array.isArray(tools)
      ? {
          tools: tools.map((tool: Body) => ({
            type: 'function',
            function: { name: tool['name'], description: tool['description'], parameters: tool['input_schema'] },
          })),
        }
      : {}),
    tool_choice:
      choice?.type === 'any'
        ? 'required'
        : choice?.type === 'tool'
          ? { type: 'function', function: { name: choice.name } }
          : undefined,
    stop: body['stop_sequences'],
  }
}

function stopReason(request: ServedRequest): string {
  const { plan } = request.choices[0]!
  if (plan.tool !== null) return 'tool_use'
  if (plan.finish === 'length') return 'max_tokens'
  return plan.stopReason === null ? 'end_turn' : 'stop_sequence'
}

function usage(request: ServedRequest, sequences: readonly Sequence[]): object {
  const totals = totalsOfRequest(request, sequences)
  return {
    input_tokens: totals.promptTokens - totals.cachedTokens,
    output_tokens: totals.completionTokens,
    cache_creation_input_tokens: totals.createdTokens,
    cache_read_input_tokens: totals.cachedTokens,
  }
}

function message(request: ServedRequest, sequences: readonly Sequence[], aborted: boolean): object {
  const { plan } = request.choices[0]!
  const text = plan.pieces.slice(0, sequences[0]!.outputs).join('')
  const content =
    plan.tool === null
      ? { type: 'text', text }
      : {
          type: 'tool_use',
          id: plan.tool.id,
          name: plan.tool.name,
          input: plan.finish === 'length' ? {} : (JSON.parse(text) as unknown),
        }
  return {
    id: request.id,
    type: 'message',
    role: 'assistant',
    content: [content],
    model: request.input.model,
    stop_reason: aborted ? 'abort' : stopReason(request),
    ...(plan.stopReason === null ? {} : { stop_sequence: plan.stopReason }),
    usage: usage(request, sequences),
    // Included only if there is something to report.
    ...(request.leg.kind === 'prefill' && !aborted
      ? { kv_transfer_params: kvTransferParams(request, sequences, { aborted, requestId: request.id }) }
      : {}),
  }
}

function messageStream(request: ServedRequest): Answer {
  const { plan, spec } = request.choices[0]!
  return eventStream((sink) => {
    const send = (type: string, fields: object): void => sink.write(event(type, { type, ...fields }))
    const open = (): void => {
      send('message_start', {
        message: {
          id: request.id,
          type: 'message',
          role: 'assistant',
          content: [],
          model: request.input.model,
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: spec.promptTokens, output_tokens: 0 },
        },
      })
      const block =
        plan.tool === null
          ? { type: 'text', text: '' }
          : { type: 'tool_use', id: plan.tool.id, name: plan.tool.name, input: {} }
      send('content_block_start', { content_block: block, index: 0 })
    }
    return run(request, {
      token: (_choice, count) => {
        if (count === 1) open()
        const piece = plan.pieces[count - 1] ?? ''
        const delta =
          plan.tool === null ? { type: 'text_delta', text: piece } : { type: 'input_json_delta', partial_json: piece }
        send('content_block_delta', { delta, index: 0 })
      },
      done: (sequences, aborted) => {
        send('content_block_stop', { index: 0 })
        send('message_delta', {
          delta: { stop_reason: aborted ? 'abort' : stopReason(request), stop_sequence: plan.stopReason },
          usage: usage(request, sequences),
        })
        send('message_stop', {})
        sink.end()
      },
    })
  })
}
