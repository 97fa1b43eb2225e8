/** Anthropic's Messages as vLLM writes them with `--enable-prompt-tokens-details`. */
import { named, pieces, type Answer, type AnswerOptions, type AnswerWriter, type Counts } from './answer.ts'

/** Cached and created tokens are no part of `input_tokens`. */
const usage = ({ prompt, cached, created, output }: Counts): object => ({
  input_tokens: prompt - cached - created,
  output_tokens: output,
  cache_creation_input_tokens: created,
  cache_read_input_tokens: cached,
})

const stopOf = ({ call }: Answer): string => (call === null ? 'end_turn' : 'tool_use')

const message = ({ id, model }: AnswerOptions): object => ({
  id: `chatcmpl-${id}`,
  type: 'message',
  role: 'assistant',
  content: [],
  model,
})

const block = (index: number, content: object, deltas: readonly object[]): string[] => [
  named('content_block_start', { index, content_block: content }),
  ...deltas.map((delta) => named('content_block_delta', { index, delta })),
  named('content_block_stop', { index }),
]

export const messagesAnswer: AnswerWriter = {
  untilOutput: 3,
  whole: (answer, counts, options) => ({
    ...message(options),
    content: [
      { type: 'text', text: answer.text },
      ...(answer.call === null
        ? []
        : [{ type: 'tool_use', id: answer.call.id, name: answer.call.name, input: answer.call.args }]),
    ],
    stop_reason: stopOf(answer),
    stop_sequence: null,
    usage: usage(counts),
  }),
  events(answer, counts, options) {
    const { text, call } = answer
    const words = pieces(text).map((piece) => ({ type: 'text_delta', text: piece }))
    const input = pieces(JSON.stringify(call?.args ?? {})).map((piece) => ({
      type: 'input_json_delta',
      partial_json: piece,
    }))
    return [
      // vLLM reports the whole prompt here, and its parts at the end.
      named('message_start', {
        message: {
          ...message(options),
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: counts.prompt, output_tokens: 0 },
        },
      }),
      ...block(0, { type: 'text', text: '' }, words),
      ...(call === null ? [] : block(1, { type: 'tool_use', id: call.id, name: call.name, input: {} }, input)),
      named('message_delta', { delta: { stop_reason: stopOf(answer), stop_sequence: null }, usage: usage(counts) }),
      named('message_stop', {}),
    ]
  },
  error: (text) => named('error', { error: { type: 'internal_error', message: text } }),
}
