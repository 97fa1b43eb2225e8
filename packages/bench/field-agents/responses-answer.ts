/** OpenAI's Responses as vLLM writes them. */
import {
  named,
  pieces,
  type Answer,
  type AnswerOptions,
  type AnswerWriter,
  type Counts,
  type ToolCall,
} from './answer.ts'

const usage = ({ prompt, cached, output }: Counts): object => ({
  input_tokens: prompt,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: prompt + output,
})

const response = ({ id, model }: AnswerOptions, fields: object): object => ({
  id: `resp_${id}`,
  object: 'response',
  created_at: 1_795_000_000,
  error: null,
  incomplete_details: null,
  model,
  parallel_tool_calls: true,
  tool_choice: 'auto',
  tools: [],
  ...fields,
})

const textPart = (text: string): object => ({ type: 'output_text', text, annotations: [] })

const textItem = (id: string, text: string, status: string): object => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  status,
  content: status === 'completed' ? [textPart(text)] : [],
})

const callItem = ({ id, name, args }: ToolCall, status: string): object => ({
  id: `fc_${id}`,
  type: 'function_call',
  call_id: id,
  name,
  arguments: status === 'completed' ? JSON.stringify(args) : '',
  status,
})

const itemsOf = (id: string, { text, call }: Answer): readonly object[] => [
  textItem(id, text, 'completed'),
  ...(call === null ? [] : [callItem(call, 'completed')]),
]

type Event = readonly [type: string, fields: object]

function textEvents(id: string, text: string): Event[] {
  const place = { item_id: `msg_${id}`, output_index: 0, content_index: 0 }
  return [
    ['response.output_item.added', { output_index: 0, item: textItem(id, '', 'in_progress') }],
    ['response.content_part.added', { ...place, part: textPart('') }],
    ...pieces(text).map((delta): Event => ['response.output_text.delta', { ...place, delta, logprobs: [] }]),
    ['response.output_text.done', { ...place, text, logprobs: [] }],
    ['response.content_part.done', { ...place, part: textPart(text) }],
    ['response.output_item.done', { output_index: 0, item: textItem(id, text, 'completed') }],
  ]
}

function callEvents(call: ToolCall): Event[] {
  const place = { item_id: `fc_${call.id}`, output_index: 1 }
  const text = JSON.stringify(call.args)
  return [
    ['response.output_item.added', { output_index: 1, item: callItem(call, 'in_progress') }],
    ...pieces(text).map((delta): Event => ['response.function_call_arguments.delta', { ...place, delta }]),
    ['response.function_call_arguments.done', { ...place, name: call.name, arguments: text }],
    ['response.output_item.done', { output_index: 1, item: callItem(call, 'completed') }],
  ]
}

export const responsesAnswer: AnswerWriter = {
  untilOutput: 5,
  whole: (answer, counts, options) =>
    response(options, { status: 'completed', output: itemsOf(options.id, answer), usage: usage(counts) }),
  events(answer, counts, options) {
    const begun = { response: response(options, { status: 'in_progress', output: [], usage: null }) }
    const done = response(options, { status: 'completed', output: itemsOf(options.id, answer), usage: usage(counts) })
    const events: readonly Event[] = [
      ['response.created', begun],
      ['response.in_progress', begun],
      ...textEvents(options.id, answer.text),
      ...(answer.call === null ? [] : callEvents(answer.call)),
      ['response.completed', { response: done }],
    ]
    return events.map(([type, fields], at) => named(type, { sequence_number: at, ...fields }))
  },
  // vLLM's error has no name.
  error: (message) => `data: ${JSON.stringify({ error: { message, type: 'InternalServerError', code: 500 } })}\n\n`,
}
