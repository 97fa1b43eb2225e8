/** Recorded requests: every endpoint of a text model, and invalid requests to it. */
import type { RecordedRequest } from './vector.ts'

type Requests = Readonly<Record<string, RecordedRequest>>

const get = (path: string): RecordedRequest => ({ method: 'GET', path })
const post = (path: string, json?: unknown): RecordedRequest =>
  json === undefined ? { method: 'POST', path } : { method: 'POST', path, json }
const model = 'tiny'
const hello = [{ role: 'user', content: 'hello' }]
const short = { max_tokens: 4, temperature: 0, ignore_eos: true }
const usage = { stream: true, stream_options: { include_usage: true } }

const chat = (more: object = {}) => post('/v1/chat/completions', { model, messages: hello, ...short, ...more })
const completion = (more: object = {}) => post('/v1/completions', { model, prompt: 'hello', ...short, ...more })
const responses = (more: object = {}) =>
  post('/v1/responses', { model, input: 'hello', max_output_tokens: 4, temperature: 0, ...more })
const messages = (more: object = {}) =>
  post('/v1/messages', { model, messages: hello, max_tokens: 4, temperature: 0, ...more })

export const weatherTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather now',
    parameters: {
      type: 'object',
      properties: { unit: { type: 'string', enum: ['c', 'f'] } },
      required: ['unit'],
      additionalProperties: false,
    },
  },
}
const turns = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Wie heißt du? 你好 👋🏽' },
  { role: 'assistant', content: 'Ich heiße Tiny.' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'And in parts' },
      { type: 'text', text: 'two of them' },
    ],
  },
]
const toolTurns = [
  { role: 'user', content: 'Weather?' },
  {
    role: 'assistant',
    content: '',
    tool_calls: [{ id: 'call-1', type: 'function', function: { name: 'get_weather', arguments: '{"unit":"c"}' } }],
  },
  { role: 'tool', tool_call_id: 'call-1', content: '21' },
]

export const surface: Requests = {
  health: get('/health'),
  ping: get('/ping'),
  version: get('/version'),
  load: get('/load'),
  models: get('/v1/models'),
  'kv-event-sources': get('/kv_event_sources'),
  tokenize: post('/tokenize', { model, prompt: 'Hello, wörld 👋' }),
  'tokenize-strings': post('/tokenize', { model, prompt: 'Hello, wörld', return_token_strs: true }),
  'tokenize-chat': post('/tokenize', { model, messages: turns }),
  'tokenize-chat-open': post('/tokenize', { model, messages: hello, add_generation_prompt: false }),
  'tokenize-chat-tools': post('/tokenize', { model, messages: toolTurns, tools: [weatherTool] }),
  detokenize: post('/detokenize', { model, tokens: [1, 74, 75, 2] }),
  chat: chat(),
  'chat-stream': chat({ stream: true }),
  'chat-stream-usage': chat(usage),
  'chat-stream-usage-each': chat({
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
  }),
  'chat-turns': chat({ messages: turns }),
  'chat-two': chat({ n: 2, temperature: 1, seed: 7 }),
  'chat-stop': chat({ stop: ['n'], max_tokens: 8 }),
  'chat-logprobs': chat({ logprobs: true, top_logprobs: 2, max_tokens: 2 }),
  'chat-stream-logprobs': chat({ logprobs: true, top_logprobs: 1, max_tokens: 2, stream: true }),
  'chat-ids': chat({ return_token_ids: true, max_tokens: 2 }),
  'chat-tools-auto': chat({ tools: [weatherTool] }),
  'chat-tools': chat({ tools: [weatherTool], tool_choice: 'required', max_tokens: 64 }),
  'chat-tools-stream': chat({ tools: [weatherTool], tool_choice: 'required', max_tokens: 64, ...usage }),
  'chat-max-completion-tokens': chat({ max_tokens: undefined, max_completion_tokens: 2 }),
  'chat-priority': chat({ priority: 3 }),
  'chat-kv-transfer-params': chat({ kv_transfer_params: { do_remote_decode: true } }),
  'chat-load-report': { ...chat(), headers: { 'endpoint-load-metrics-format': 'JSON' } },
  completion: completion(),
  'completion-stream': completion({ stream: true }),
  'completion-stream-usage': completion(usage),
  'completion-ids': completion({ prompt: [10, 11, 12, 13] }),
  'completion-list': completion({ prompt: ['hello', 'good'], max_tokens: 2 }),
  'completion-list-stream': completion({ prompt: ['hello', 'good'], max_tokens: 2, ...usage }),
  'completion-echo': completion({ echo: true }),
  'completion-echo-stream': completion({ prompt: 'Grüße 👋🏽 日本', echo: true, ...usage }),
  'completion-logprobs': completion({ logprobs: 1, max_tokens: 2 }),
  responses: responses(),
  'responses-stream': responses({ stream: true }),
  messages: messages(),
  'messages-stream': messages({ stream: true }),
  'messages-count': post('/v1/messages/count_tokens', { model, messages: hello }),
  embeddings: post('/v1/embeddings', { model, input: 'hello' }),
  render: post('/v1/chat/completions/render', { model, messages: hello }),
  generate: post('/inference/v1/generate', { model, token_ids: [10, 11] }),
  'is-sleeping': get('/is_sleeping'),
  'is-paused': get('/is_paused'),
  pause: post('/pause'),
  resume: post('/resume'),
  'reset-prefix-cache': post('/reset_prefix_cache'),
}

/** More words than the model's token limit. */
const long = '7 '.repeat(4100)

export const mistakes: Requests = {
  'no-key': { ...chat(), key: 'none' },
  'wrong-key': { ...chat(), key: 'wrong' },
  'no-key-messages': { ...messages(), key: 'none' },
  'bad-json': { method: 'POST', path: '/v1/chat/completions', text: '{"model": "tiny", ' },
  'empty-body': { method: 'POST', path: '/v1/chat/completions', text: '' },
  'array-body': { method: 'POST', path: '/v1/chat/completions', text: '[]' },
  'not-json': {
    method: 'POST',
    path: '/v1/chat/completions',
    text: JSON.stringify({ model, messages: hello }),
    headers: { 'content-type': 'text/plain' },
  },
  'unknown-model': chat({ model: 'nope' }),
  'unknown-model-stream': chat({ model: 'nope', stream: true }),
  'unknown-model-completion': completion({ model: 'nope' }),
  'unknown-model-responses': responses({ model: 'nope' }),
  'unknown-model-messages': messages({ model: 'nope' }),
  'unknown-model-tokenize': post('/tokenize', { model: 'nope', prompt: 'hello' }),
  'no-model': post('/v1/chat/completions', { messages: hello, max_tokens: 1, temperature: 0 }),
  'no-messages': post('/v1/chat/completions', { model }),
  'empty-messages': chat({ messages: [] }),
  'messages-string': chat({ messages: 'hello' }),
  'role-missing': chat({ messages: [{ content: 'hello' }] }),
  'role-unknown': chat({ messages: [{ role: 'wizard', content: 'hello' }] }),
  'image-for-text-model': chat({
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }],
  }),
  'prompt-missing': post('/v1/completions', { model }),
  'prompt-empty': completion({ prompt: '' }),
  'prompt-object': completion({ prompt: { a: 1 } }),
  'temperature-negative': chat({ temperature: -1 }),
  'temperature-string': chat({ temperature: 'warm' }),
  'top-p-zero': chat({ top_p: 0 }),
  'max-tokens-zero': chat({ max_tokens: 0 }),
  'max-tokens-beyond': chat({ max_tokens: 100_000 }),
  'n-zero': chat({ n: 0 }),
  'stream-options-alone': chat({ stream_options: { include_usage: true } }),
  'stream-string': chat({ stream: 'maybe' }),
  'chat-too-long': chat({ messages: [{ role: 'user', content: long }] }),
  'chat-too-long-stream': chat({ messages: [{ role: 'user', content: long }], stream: true }),
  'completion-too-long': completion({ prompt: long }),
  'responses-too-long': responses({ input: long }),
  'messages-too-long': messages({ messages: [{ role: 'user', content: long }] }),
  'salt-empty': chat({ cache_salt: '' }),
  'token-unknown': completion({ prompt: [10, 99_999] }),
  'logprobs-too-many': chat({ logprobs: true, top_logprobs: 50 }),
  'tool-choice-without-tools': chat({ tool_choice: 'required' }),
  'bad-schema': chat({
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'nonsense' } } },
  }),
  'unknown-field': chat({ colour: 'red' }),
  'unknown-route': get('/v1/nothing'),
  'wrong-method': get('/v1/chat/completions'),
  'wrong-method-models': post('/v1/models', {}),
  'response-unknown': get('/v1/responses/resp_0000000000000000'),
  'previous-response-unknown': responses({ previous_response_id: 'resp_0000000000000000' }),
  'detokenize-missing': post('/detokenize', { model }),
  'messages-no-max-tokens': post('/v1/messages', { model, messages: hello }),
  'messages-bad-json': { method: 'POST', path: '/v1/messages', text: '{' },
}

/** Consecutive token ids: prompts share blocks exactly where their ids overlap. */
const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)
const tokens = (prompt: number[], more: object = {}) => completion({ prompt, max_tokens: 1, ...more })

/** In this order on an empty cache with blocks of 32: the engine's reported cached tokens. */
export const cacheSteps: Requests = {
  'cache-empty': post('/reset_prefix_cache'),
  'cache-100-cold': tokens(ids(100, 100)),
  'cache-100-again': tokens(ids(100, 100)),
  'cache-100-salted': tokens(ids(100, 100), { cache_salt: 'tenant-a' }),
  'cache-100-salted-again': tokens(ids(100, 100), { cache_salt: 'tenant-a' }),
  'cache-100-other-salt': tokens(ids(100, 100), { cache_salt: 'tenant-b' }),
  'cache-200-longer': tokens(ids(100, 200)),
  'cache-200-again': tokens(ids(100, 200)),
  'cache-128-whole-blocks': tokens(ids(100, 128)),
  'cache-129-one-more': tokens(ids(100, 129)),
  'cache-64-then-other': tokens([...ids(100, 64), ...ids(900, 64)]),
  'cache-shifted-by-one': tokens(ids(101, 100)),
  'cache-20-cold': tokens(ids(500, 20)),
  'cache-20-again': tokens(ids(500, 20)),
  'cache-32-cold': tokens(ids(600, 32)),
  'cache-32-again': tokens(ids(600, 32)),
  'cache-33-again': tokens(ids(600, 33)),
  'cache-stream': tokens(ids(100, 100), usage),
  'cache-emptied': post('/reset_prefix_cache'),
  'cache-100-after': tokens(ids(100, 100)),
}
