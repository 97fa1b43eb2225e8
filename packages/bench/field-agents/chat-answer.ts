/** Chat completions as vLLM writes them. */
import { data, pieces, type Answer, type AnswerWriter, type Counts, type ToolCall } from './answer.ts'

const CREATED = 1_795_000_000

const usage = ({ prompt, cached, output }: Counts): object => ({
  prompt_tokens: prompt,
  total_tokens: prompt + output,
  completion_tokens: output,
  prompt_tokens_details: { cached_tokens: cached },
})

const finishOf = ({ call }: Answer): string => (call === null ? 'stop' : 'tool_calls')

const toolCalls = ({ call }: Answer): readonly object[] =>
  call === null
    ? []
    : [{ id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.args) } }]

const startOfCall = (call: ToolCall): object => ({
  index: 0,
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: '' },
})

export const chatAnswer: AnswerWriter = {
  untilOutput: 2,
  whole: (answer, counts, { id, model }) => ({
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: CREATED,
    model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answer.text, tool_calls: toolCalls(answer) },
        finish_reason: finishOf(answer),
      },
    ],
    usage: usage(counts),
  }),
  events(answer, counts, { id, model, includeUsage }) {
    const head = { id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created: CREATED, model }
    const chunk = (delta: object, finish: string | null = null): string =>
      data({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] })
    const args = pieces(JSON.stringify(answer.call?.args ?? {}))
    return [
      chunk({ role: 'assistant', content: '' }),
      ...pieces(answer.text).map((content) => chunk({ content })),
      ...(answer.call === null
        ? []
        : [
            chunk({ tool_calls: [startOfCall(answer.call)] }),
            ...args.map((text) => chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] })),
          ]),
      chunk({}, finishOf(answer)),
      ...(includeUsage ? [data({ ...head, choices: [], usage: usage(counts) })] : []),
      data('[DONE]'),
    ]
  },
  error: (message) =>
    data({ error: { message, type: 'InternalServerError', param: null, code: 500 } }) + data('[DONE]'),
}
