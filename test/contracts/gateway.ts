/**
 * Responses of the gateway as data, with a runner for any way to send a request: `createGateway(…).fetch`, a Node
 * server, the built Worker. Every gateway under test has the configuration `gatewayDocument`.
 */
import { describe, expect, it } from 'vitest'

export const gatewayKeys = { narrow: 'narrow-secret-1', broad: 'broad-secret-2', admin: 'admin-secret-3' } as const

/** SHA-256 of `broad`, which is all that the gateway stores. */
const BROAD_SHA256 = 'dd6c00b6d6fbe729ee0eed2eca143211810168917775b6d18021f62b70c7373b'
const BODY_LIMIT = 65_536
const PIECES_LIMIT = 120_001

/** Configuration of the table. `urls` are engines of the base model `Qwen/Qwen3-8B`. */
export function gatewayDocument(urls: readonly string[]): Record<string, unknown> {
  return {
    version: 1,
    open: false,
    keys: [
      { name: 'narrow', secret: gatewayKeys.narrow, models: ['qwen'] },
      { name: 'broad', secret: { sha256: BROAD_SHA256 }, allow_overrides: true },
    ],
    admin: { secret: gatewayKeys.admin },
    limits: { body_bytes: BODY_LIMIT, max_json_cost: PIECES_LIMIT },
    clusters: [
      {
        id: 'local',
        pools: [
          {
            model: 'Qwen/Qwen3-8B',
            aliases: ['qwen'],
            adapters: ['poet'],
            policy: 'round_robin',
            engines: urls.map((url, i) => ({ id: `e${i}`, url })),
          },
        ],
      },
    ],
  }
}

export interface GatewayRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | null
  /** Send without a declared length, in pieces. */
  readonly chunked: boolean
}

export type SendToGateway = (request: GatewayRequest) => Promise<Response>

interface ExpectedError {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | RegExp>>
  readonly absent?: readonly string[]
  /** OpenAI's error object, field by field. */
  readonly error?: Readonly<Record<string, unknown>>
  /** Anthropic's `error.type`. */
  readonly anthropic?: string
  readonly message?: RegExp
  /** Part of the JSON body. */
  readonly json?: Readonly<Record<string, unknown>>
}

interface GatewayCase extends ExpectedError {
  /** Name of the test: a sentence that can be false. */
  readonly name: string
  readonly send: Partial<GatewayRequest> & { readonly path: string }
}

const chat = '/v1/chat/completions'
const narrow = { authorization: `Bearer ${gatewayKeys.narrow}` }
const broad = { authorization: `Bearer ${gatewayKeys.broad}` }
const admin = { authorization: `Bearer ${gatewayKeys.admin}` }
const final = { 'x-should-retry': 'false' }
const say = (more: object = {}, model = 'qwen'): string =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2, ...more })
const nest = (depth: number, open: string, close: string): string =>
  `{"model":"qwen","messages":${open.repeat(depth)}${close.repeat(depth)}}`

const keyCases: readonly GatewayCase[] = [
  {
    name: 'asks for a key',
    send: { path: chat, headers: {}, body: say() },
    status: 401,
    headers: { ...final, 'www-authenticate': 'Bearer' },
    error: { type: 'authentication_error', code: 'missing_api_key', param: null },
  },
  {
    name: 'refuses a wrong key',
    send: { path: chat, headers: { authorization: 'Bearer nope' }, body: say() },
    status: 401,
    headers: final,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'refuses a key that begins like a right one',
    send: { path: chat, headers: { authorization: `Bearer ${gatewayKeys.narrow}x` }, body: say() },
    status: 401,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'refuses the hash of a key',
    send: { path: chat, headers: { authorization: `Bearer ${BROAD_SHA256}` }, body: say() },
    status: 401,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'refuses another scheme',
    send: { path: chat, headers: { authorization: `Basic ${gatewayKeys.narrow}` }, body: say() },
    status: 401,
    error: { code: 'missing_api_key' },
  },
  {
    name: 'takes x-api-key for no OpenAI call',
    send: { path: chat, headers: { 'x-api-key': gatewayKeys.narrow }, body: say() },
    status: 401,
    error: { code: 'missing_api_key' },
  },
  {
    name: 'takes the scheme in any case',
    send: { path: '/v1/models', method: 'GET', headers: { authorization: `bearer ${gatewayKeys.narrow}` } },
    status: 200,
  },
  {
    name: 'guards what vLLM leaves open: /tokenize',
    send: { path: '/tokenize', headers: {}, body: say() },
    status: 401,
  },
  { name: 'guards what vLLM leaves open: /pooling', send: { path: '/pooling', headers: {}, body: say() }, status: 401 },
  { name: 'guards the list of models', send: { path: '/v1/models', method: 'GET', headers: {} }, status: 401 },
  { name: 'checks the key before it reads the body', send: { path: chat, headers: {}, body: '{' }, status: 401 },
]

const bodyCases: readonly GatewayCase[] = [
  {
    name: 'refuses a field whose name holds a backslash',
    send: { path: chat, body: '{"model":"qwen","\\\\u006b":1}' },
    status: 400,
    headers: final,
    error: { code: 'invalid_body' },
    message: /backslash/,
  },
  {
    name: 'refuses what is no JSON',
    send: { path: chat, body: '{"model":' },
    status: 400,
    headers: final,
    error: { type: 'invalid_request_error', code: 'invalid_json' },
  },
  {
    name: 'never repeats the body in an error',
    send: { path: chat, body: '{"model": my-secret-prompt' },
    status: 400,
    message: /^((?!my-secret).)*$/,
  },
  { name: 'refuses an empty body', send: { path: chat, body: '' }, status: 400, error: { code: 'invalid_json' } },
  {
    name: 'refuses an array',
    send: { path: chat, body: '[{"model":"qwen"}]' },
    status: 400,
    headers: final,
    error: { code: 'invalid_body' },
    message: /an array/,
  },
  {
    name: 'refuses null',
    send: { path: chat, body: 'null' },
    status: 400,
    error: { code: 'invalid_body' },
    message: /null/,
  },
  {
    name: 'refuses a lone text',
    send: { path: chat, body: '"qwen"' },
    status: 400,
    error: { code: 'invalid_body' },
    message: /a string/,
  },
  {
    name: 'refuses bytes that are no UTF-8',
    send: { path: chat, body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d) },
    status: 400,
    error: { code: 'invalid_json' },
    message: /UTF-8/,
  },
  {
    name: 'refuses UTF-16',
    send: {
      path: chat,
      body: Uint8Array.from([0xff, 0xfe, ...[...'{"model":"qwen"}'].flatMap((c) => [c.charCodeAt(0), 0])]),
    },
    status: 400,
    error: { code: 'invalid_json' },
  },
  {
    name: 'refuses NaN, which Python would read',
    send: { path: chat, body: '{"model":"qwen","temperature":NaN}' },
    status: 400,
    error: { code: 'invalid_json' },
  },
  {
    name: 'refuses a compressed body',
    send: { path: chat, headers: { ...narrow, 'content-encoding': 'gzip' }, body: say() },
    status: 415,
    headers: final,
    error: { code: 'unsupported_media_type' },
    message: /gzip/,
  },
  {
    name: 'takes identity for no compression',
    send: { path: chat, headers: { ...narrow, 'content-encoding': 'identity' }, body: '{' },
    status: 400,
  },
  {
    name: 'refuses a body over the limit by its declared length',
    send: { path: chat, body: ' '.repeat(BODY_LIMIT + 1) },
    status: 413,
    headers: final,
    error: { code: 'body_too_large' },
    message: /65536/,
  },
  {
    name: 'refuses a body in too many pieces before it is parsed',
    send: { path: chat, body: '['.repeat(60_001) },
    status: 413,
    headers: final,
    error: { code: 'body_too_large' },
    message: /parse cost above 120001/,
  },
  {
    name: 'refuses a body over the limit while it comes',
    send: { path: chat, body: ' '.repeat(10 * 1024 * 1024), chunked: true },
    status: 413,
    error: { code: 'body_too_large' },
  },
  {
    name: 'reads a body that comes without a length',
    send: { path: chat, body: '{"messages":[]}', chunked: true },
    status: 400,
    error: { code: 'missing_model' },
  },
  {
    name: 'reads blanks up to the limit',
    send: { path: chat, body: ' '.repeat(BODY_LIMIT) },
    status: 400,
    error: { code: 'invalid_json' },
  },
  {
    name: 'survives arrays nested without end',
    send: { path: chat, body: '['.repeat(60_000) },
    status: 400,
    error: { code: 'invalid_json' },
  },
  {
    name: 'finds the missing model under a deep nest',
    send: { path: chat, body: nest(25_000, '[', ']').replace('"model":"qwen",', '') },
    status: 400,
    error: { code: 'missing_model' },
  },
]

const fieldCases: readonly GatewayCase[] = [
  {
    name: 'asks for a model, and says which there are',
    send: { path: chat, body: '{"messages":[]}' },
    status: 400,
    headers: final,
    error: { code: 'missing_model', param: 'model' },
    message: /qwen/,
  },
  {
    name: 'takes an empty name for none',
    send: { path: chat, body: '{"model":""}' },
    status: 400,
    error: { code: 'missing_model' },
  },
  {
    name: 'refuses a model that is no text, with path and value',
    send: { path: chat, body: '{"model":7}' },
    status: 400,
    error: { code: 'invalid_value', param: 'model' },
    message: /model is 7/,
  },
  {
    name: 'refuses an unknown model, and says which there are',
    send: { path: chat, body: say({}, 'gpt-9') },
    status: 404,
    headers: final,
    error: { code: 'model_not_found', param: 'model' },
    message: /gpt-9.*qwen/,
  },
  {
    name: 'refuses a model this key may not use in the same words',
    send: { path: chat, body: say({}, 'Qwen/Qwen3-8B') },
    status: 404,
    error: { code: 'model_not_found' },
    message: /Models for this key: qwen\./,
  },
  {
    name: 'is not taken in by the names of object properties',
    send: { path: chat, body: say({}, '__proto__'), headers: broad },
    status: 404,
    error: { code: 'model_not_found' },
  },
  {
    name: 'is not taken in by a prototype in the body',
    send: { path: chat, body: '{"__proto__":{"model":"qwen"},"messages":[]}' },
    status: 400,
    error: { code: 'missing_model' },
  },
  {
    name: 'counts the last of two equal keys, as engines do',
    send: { path: chat, body: '{"model":"qwen","model":"gpt-9"}' },
    status: 404,
    message: /gpt-9/,
  },
  {
    name: 'keeps a lone surrogate to itself',
    send: { path: chat, body: '{"model":"\\ud800"}' },
    status: 404,
    error: { code: 'model_not_found' },
  },
  {
    name: 'cuts a name of no reasonable length short',
    send: { path: chat, body: say({}, 'x'.repeat(50_000)) },
    status: 404,
    message: /^.{0,400}$/,
  },
  {
    name: 'refuses a stream that is no boolean',
    send: { path: chat, body: say({ stream: 'yes' }) },
    status: 400,
    error: { code: 'invalid_value', param: 'stream' },
    message: /stream is "yes"/,
  },
  {
    name: 'refuses a priority beyond all numbers',
    send: { path: chat, body: '{"model":"qwen","priority":1e400}' },
    status: 400,
    error: { param: 'priority' },
  },
  {
    name: 'names the path of a wrong value inside',
    send: { path: chat, body: say({ stream: true, stream_options: { include_usage: 1 } }) },
    status: 400,
    error: { param: 'stream_options.include_usage' },
  },
  {
    name: 'refuses an override the key does not allow, by name',
    send: { path: chat, body: say({ firstlight: { policy: 'random' } }) },
    status: 403,
    headers: final,
    error: { type: 'permission_error', code: 'forbidden', param: 'firstlight.policy' },
  },
  {
    name: 'refuses it in the header too',
    send: { path: chat, headers: { ...narrow, 'x-firstlight-options': '{"priority":1}' }, body: say() },
    status: 403,
    error: { param: 'firstlight.priority' },
  },
  {
    name: 'refuses an option there is not',
    send: { path: chat, headers: broad, body: say({ firstlight: { polici: 'x' } }) },
    status: 400,
    error: { param: 'firstlight.polici' },
    message: /policy/,
  },
  {
    name: 'cuts the name of an option of no reasonable length short',
    send: { path: chat, headers: broad, body: say({ firstlight: { ['x'.repeat(50_000)]: 1 } }) },
    status: 400,
    error: { code: 'invalid_value' },
    message: /^.{0,400}$/,
  },
  {
    name: 'refuses a policy there is not, and says which there are',
    send: { path: chat, headers: broad, body: say({ firstlight: { policy: 'fastest' } }) },
    status: 400,
    error: { param: 'firstlight.policy' },
    message: /"fastest".*round_robin/,
  },
  {
    name: 'refuses an option of the wrong type',
    send: { path: chat, headers: broad, body: say({ firstlight: { temperature: 'hot' } }) },
    status: 400,
    error: { param: 'firstlight.temperature' },
    message: /"hot"/,
  },
  {
    name: 'refuses a temperature no policy takes',
    send: { path: chat, headers: broad, body: say({ firstlight: { temperature: 11 } }) },
    status: 400,
    error: { param: 'firstlight.temperature' },
    message: /11/,
  },
  {
    name: 'refuses an overlap weight no policy takes',
    send: { path: chat, headers: broad, body: say({ firstlight: { overlap_weight: 101 } }) },
    status: 400,
    error: { param: 'firstlight.overlap_weight' },
    message: /101/,
  },
  {
    name: 'refuses options that are no object',
    send: { path: chat, headers: broad, body: say({ firstlight: 1 }) },
    status: 400,
    error: { param: 'firstlight' },
  },
  {
    name: 'refuses a header that is no JSON',
    send: { path: chat, headers: { ...broad, 'x-firstlight-options': 'policy=x' }, body: say() },
    status: 400,
    error: { param: 'x-firstlight-options' },
  },
]

const routeCases: readonly GatewayCase[] = [
  ...[
    '/sleep',
    '/wake_up',
    '/v1/load_lora_adapter',
    '/v1/unload_lora_adapter',
    '/reset_prefix_cache',
    '/collective_rpc',
    '/v1/chat/completions/render',
    '/start_profile',
    '/invocations',
    '/nothing',
  ].map((path): GatewayCase => ({
    name: `does not know ${path}`,
    send: { path, headers: broad, body: say() },
    status: 404,
    headers: final,
    error: { code: 'unknown_url', param: null },
  })),
  {
    name: 'answers on an unknown path below /v1/messages in the form of Messages',
    send: { path: '/v1/messages/batches', headers: broad, body: say() },
    status: 404,
    headers: final,
    anthropic: 'not_found_error',
  },
  {
    name: 'names a doubled base URL',
    send: { path: '/v1/v1/messages', headers: broad, body: say() },
    status: 404,
    message: /without \/v1/,
  },
  {
    name: 'takes no extra arguments of token-in requests, which may be transfer parameters',
    send: {
      path: '/inference/v1/generate',
      headers: broad,
      body: JSON.stringify({
        model: 'qwen',
        token_ids: [1],
        sampling_params: { extra_args: { kv_transfer_params: {} } },
      }),
    },
    status: 400,
    headers: final,
    error: { code: 'invalid_value', param: 'sampling_params.extra_args' },
  },
  {
    name: 'passes no path through by tricks',
    send: { path: '/v1/responses/..%2f..%2fsleep', method: 'GET' },
    status: 404,
  },
  { name: 'does not know an engine’s server_info', send: { path: '/server_info', method: 'GET' }, status: 404 },
  {
    name: 'says which methods a path takes',
    send: { path: chat, method: 'GET' },
    status: 405,
    headers: { ...final, allow: 'POST' },
    error: { code: 'method_not_allowed' },
    message: /GET/,
  },
  {
    name: 'says so for every method',
    send: { path: '/v1/models', method: 'PUT', body: '{}' },
    status: 405,
    headers: { allow: 'GET, HEAD' },
  },
  {
    name: 'says so before it asks for a key',
    send: { path: '/v1/firstlight/fleet', headers: {}, body: '{}' },
    status: 405,
    headers: { allow: 'GET, HEAD' },
  },
  {
    name: 'is healthy without a key',
    send: { path: '/health', method: 'GET', headers: {} },
    status: 200,
    json: { status: 'ok' },
  },
  { name: 'is ready', send: { path: '/ready', method: 'GET', headers: {} }, status: 200, json: { status: 'ready' } },
  { name: 'tells its version', send: { path: '/version', method: 'GET', headers: {} }, status: 200 },
  {
    name: 'lists the models of a key',
    send: { path: '/v1/models', method: 'GET' },
    status: 200,
    json: {
      object: 'list',
      data: [expect.objectContaining({ id: 'qwen', object: 'model', root: 'Qwen/Qwen3-8B', parent: null })],
    },
  },
  {
    name: 'tells of one model',
    send: { path: '/v1/models/Qwen/Qwen3-8B', method: 'GET', headers: broad },
    status: 200,
    json: { id: 'Qwen/Qwen3-8B', object: 'model' },
  },
  {
    name: 'tells of one model whose name is encoded',
    send: { path: '/v1/models/Qwen%2FQwen3-8B', method: 'GET', headers: broad },
    status: 200,
    json: { id: 'Qwen/Qwen3-8B' },
  },
  {
    name: 'names an adapter’s base',
    send: { path: '/v1/models/poet', method: 'GET', headers: broad },
    status: 200,
    json: { root: 'poet', parent: 'Qwen/Qwen3-8B' },
  },
  {
    name: 'hides a model from a key that may not use it',
    send: { path: '/v1/models/poet', method: 'GET' },
    status: 404,
    error: { code: 'model_not_found' },
  },
  {
    name: 'does not know a response it never served',
    send: { path: '/v1/responses/resp_1', method: 'GET' },
    status: 404,
    error: { code: 'not_found' },
    message: /resp_1.*POST \/v1\/responses/,
  },
  {
    name: 'cannot cancel it either',
    send: { path: '/v1/responses/resp_1/cancel' },
    status: 404,
    error: { code: 'not_found' },
  },
  {
    name: 'nor delete it',
    send: { path: '/v1/responses/resp_1', method: 'DELETE' },
    status: 404,
    error: { code: 'not_found' },
  },
  {
    name: 'cannot go on from it, and says what to do',
    send: { path: '/v1/responses', body: '{"model":"qwen","input":"x","previous_response_id":"resp_1"}' },
    status: 404,
    headers: final,
    error: { param: 'previous_response_id' },
    message: /`input`/,
  },
]

const receive = '/v1/audio/transcriptions'
/** A form as clients send it; `fields` in order, `file` as a file. */
const form = (fields: readonly (readonly [string, string])[], end = '--frontier--\r\n'): string =>
  fields
    .map(
      ([name, value]) =>
        `--frontier\r\ncontent-disposition: form-data; name="${name}"${name === 'file' ? '; filename="a.mp3"\r\ncontent-type: audio/mpeg' : ''}\r\n\r\n${value}\r\n`,
    )
    .join('') + end
const upload = (
  fields: readonly (readonly [string, string])[],
  more: Partial<GatewayRequest> = {},
  end?: string,
): GatewayCase['send'] => ({
  path: receive,
  headers: { ...narrow, 'content-type': 'multipart/form-data; boundary=frontier' },
  body: form(fields, end),
  ...more,
})

const uploadCases: readonly GatewayCase[] = [
  {
    name: 'asks who uploads for a key, before it reads what',
    send: upload([], { headers: { 'content-type': 'multipart/form-data; boundary=frontier' } }),
    status: 401,
    error: { code: 'missing_api_key' },
  },
  {
    name: 'wants an upload as a form',
    send: { path: receive, body: say() },
    status: 415,
    headers: final,
    error: { code: 'unsupported_media_type' },
    message: /multipart\/form-data.*application\/json/,
  },
  {
    name: 'wants a translation’s as one, too',
    send: { path: '/v1/audio/translations', body: say() },
    status: 415,
    error: { code: 'unsupported_media_type' },
  },
  {
    name: 'wants a boundary, and knows who has it',
    send: upload([], { headers: { ...narrow, 'content-type': 'multipart/form-data' } }),
    status: 415,
    headers: final,
    error: { type: 'invalid_request_error', code: 'unsupported_media_type' },
    message: /boundary.*HTTP library/,
  },
  {
    name: 'asks an upload for a model',
    send: upload([['file', 'x']]),
    status: 400,
    error: { code: 'missing_model', param: 'model' },
    message: /qwen/,
  },
  {
    name: 'wants one model',
    send: upload([
      ['model', 'qwen'],
      ['file', 'x'],
      ['model', 'poet'],
    ]),
    status: 400,
    error: { code: 'invalid_body', param: 'model' },
    message: /model once/,
  },
  {
    name: 'lets a key hear no other model',
    send: upload([
      ['file', 'x'],
      ['model', 'poet'],
    ]),
    status: 404,
    error: { code: 'model_not_found' },
    message: /qwen/,
  },
  {
    name: 'wants an upload to its end',
    send: upload(
      [
        ['model', 'qwen'],
        ['file', 'x'],
      ],
      {},
      '',
    ),
    status: 400,
    error: { code: 'invalid_body' },
    message: /end with its boundary/,
  },
  {
    name: 'wants another boundary than sound has in it',
    send: upload([
      ['model', 'qwen'],
      ['file', 'a\r\n--frontier'],
    ]),
    status: 400,
    error: { code: 'invalid_body' },
    message: /boundary/,
  },
  {
    name: 'refuses an upload over the limit',
    send: upload([
      ['file', 'x'.repeat(BODY_LIMIT)],
      ['model', 'qwen'],
    ]),
    status: 413,
    error: { code: 'body_too_large' },
    message: /limits.body_bytes/,
  },
  {
    name: 'refuses an upload that is compressed',
    send: upload([], {
      headers: { ...narrow, 'content-type': 'multipart/form-data; boundary=frontier', 'content-encoding': 'gzip' },
    }),
    status: 415,
    error: { code: 'unsupported_media_type' },
  },
  {
    name: 'takes an upload’s options from the header alone',
    send: upload(
      [
        ['model', 'qwen'],
        ['file', 'x'],
      ],
      {
        headers: {
          ...narrow,
          'content-type': 'multipart/form-data; boundary=frontier',
          'x-firstlight-options': '{"policy":"random"}',
        },
      },
    ),
    status: 403,
    error: { param: 'firstlight.policy' },
  },
  {
    name: 'passes no transfer parameters of an upload on',
    send: upload([
      ['model', 'qwen'],
      ['vllm_xargs', '{"kv_transfer_params":"x"}'],
    ]),
    status: 400,
    error: { code: 'invalid_value', param: 'vllm_xargs' },
  },
  {
    name: 'says which methods an upload has',
    send: { path: receive, method: 'GET' },
    status: 405,
    headers: { allow: 'POST' },
  },
  {
    name: 'ranks an upload without sending it',
    send: upload(
      [
        ['model', 'qwen'],
        ['file', 'x'],
      ],
      {
        path: `/v1/firstlight/route?endpoint=${receive}`,
        headers: { ...admin, 'content-type': 'multipart/form-data; boundary=frontier' },
      },
    ),
    status: 200,
    json: { refusals: expect.any(Array) },
  },
]

const labelCases: readonly GatewayCase[] = [
  {
    name: 'echoes a sane request id on errors',
    send: { path: chat, headers: { ...narrow, 'x-request-id': 'abc-1.2:3=_' }, body: '{' },
    status: 400,
    headers: { 'x-request-id': 'abc-1.2:3=_' },
  },
  {
    name: 'replaces one that is not',
    send: { path: chat, headers: { ...narrow, 'x-request-id': 'a b<script>' }, body: '{' },
    status: 400,
    headers: { 'x-request-id': /^[\w.:=-]{1,128}$/ },
  },
  {
    name: 'replaces one without end',
    send: { path: chat, headers: { ...narrow, 'x-request-id': 'x'.repeat(129) }, body: '{' },
    status: 400,
    headers: { 'x-request-id': /^.{1,128}$/ },
  },
]

const anthropicCases: readonly GatewayCase[] = [
  {
    name: 'asks Anthropic’s clients for a key in their shape',
    send: { path: '/v1/messages', headers: {}, body: say() },
    status: 401,
    anthropic: 'authentication_error',
  },
  {
    name: 'takes their x-api-key',
    send: { path: '/v1/messages', headers: { 'x-api-key': gatewayKeys.narrow }, body: '[]' },
    status: 400,
    anthropic: 'invalid_request_error',
  },
  {
    name: 'takes their x-api-key beside the bearer of another server',
    send: {
      path: '/v1/messages',
      headers: { authorization: 'Bearer sk-ant-oat01-x', 'x-api-key': gatewayKeys.narrow },
      body: '[]',
    },
    status: 400,
    anthropic: 'invalid_request_error',
  },
  {
    name: 'takes a bearer beside the x-api-key of another server',
    send: { path: '/v1/messages', headers: { ...narrow, 'x-api-key': 'sk-ant-api03-x' }, body: '[]' },
    status: 400,
    anthropic: 'invalid_request_error',
  },
  {
    name: 'takes neither a bearer nor an x-api-key of other servers',
    send: { path: '/v1/messages', headers: { authorization: 'Bearer x', 'x-api-key': 'y' }, body: '[]' },
    status: 401,
    anthropic: 'authentication_error',
  },
  {
    name: 'takes their x-api-key beside another bearer for models, too',
    send: {
      path: '/v1/models',
      method: 'GET',
      headers: { authorization: 'Bearer sk-ant-oat01-x', 'x-api-key': gatewayKeys.narrow },
    },
    status: 200,
  },
  {
    name: 'tells them of an unknown model',
    send: { path: '/v1/messages', headers: { ...narrow, 'x-request-id': 'ours-1' }, body: say({}, 'claude') },
    headers: { 'x-request-id': /^ours-1$/, 'request-id': /^ours-1$/ },
    status: 404,
    anthropic: 'not_found_error',
    message: /claude/,
  },
  {
    name: 'tells them of a wrong method',
    send: { path: '/v1/messages', method: 'GET' },
    status: 405,
    anthropic: 'invalid_request_error',
  },
  {
    name: 'tells them of a body too large',
    send: { path: '/v1/messages', body: ' '.repeat(BODY_LIMIT + 1) },
    status: 413,
    anthropic: 'request_too_large',
  },
]

const kvEvents = '/v1/firstlight/kv-events'

const adminCases: readonly GatewayCase[] = [
  {
    name: 'asks for the admin key',
    send: { path: '/v1/firstlight/fleet', method: 'GET', headers: {} },
    status: 401,
    error: { code: 'missing_api_key' },
  },
  {
    name: 'takes no client’s key for it',
    send: { path: '/v1/firstlight/fleet', method: 'GET', headers: broad },
    status: 401,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'takes the admin key for no client’s',
    send: { path: chat, headers: admin, body: say() },
    status: 401,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'shows the fleet',
    send: { path: '/v1/firstlight/fleet', method: 'GET', headers: admin },
    status: 200,
    json: {
      draining: false,
      pools: [expect.objectContaining({ cluster: 'local', model: 'Qwen/Qwen3-8B', reachable: true })],
    },
  },
  {
    name: 'knows no engine of another name',
    send: { path: '/v1/firstlight/engines/nobody/drain', headers: admin },
    status: 404,
    error: { code: 'not_found' },
    message: /nobody.*fleet/,
  },
  {
    name: 'knows no decision it never took',
    send: { path: '/v1/firstlight/decisions/none', method: 'GET', headers: admin },
    status: 404,
    error: { code: 'not_found' },
  },
  {
    name: 'knows no request it never saw',
    send: { path: '/v1/firstlight/requests/none', method: 'GET', headers: admin },
    status: 404,
    error: { code: 'not_found' },
  },
  {
    name: 'takes KV events from nobody without a key',
    send: { path: kvEvents, headers: {}, body: '{}' },
    status: 401,
    error: { code: 'missing_api_key' },
  },
  {
    name: 'takes them with no client’s key',
    send: { path: kvEvents, headers: broad, body: '{}' },
    status: 401,
    error: { code: 'invalid_api_key' },
  },
  {
    name: 'says of which engines it takes none',
    send: {
      path: kvEvents,
      headers: admin,
      body: '{"pools":[{"cluster":"local","model":"Qwen/Qwen3-8B","feeds":[{"engine":"nobody"},null]},{"cluster":"x","feeds":[{}]},{}]}',
    },
    status: 200,
    json: {
      pools: [
        { states: ['unknown'], exact_tokens: false },
        { states: ['unknown'], exact_tokens: false },
        { states: [], exact_tokens: false },
      ],
    },
  },
  {
    name: 'takes KV events of no more pools than anybody has',
    send: { path: kvEvents, headers: admin, body: `{"pools":[${'{},'.repeat(1_000)}{}]}` },
    status: 400,
    error: { code: 'invalid_value' },
    message: /1001 entries.*1000/,
  },
  {
    name: 'nor of more engines',
    send: { path: kvEvents, headers: admin, body: `{"pools":[{"feeds":[${'{},'.repeat(1_000)}{}]}]}` },
    status: 400,
    message: /1001 entries.*1000/,
  },
  {
    name: 'names blocks that are no base64',
    send: { path: kvEvents, headers: admin, body: '{"pools":[{"feeds":[{"stored":"~~"}]}]}' },
    status: 400,
    message: /base64/,
  },
  // A decision or a refusal: the result does not depend on the engine’s health.
  {
    name: 'ranks without sending',
    send: { path: '/v1/firstlight/route', headers: admin, body: say() },
    status: 200,
    json: { refusals: expect.any(Array) },
  },
  {
    name: 'ranks for no endpoint there is not',
    send: { path: '/v1/firstlight/route?endpoint=/sleep', headers: admin, body: say() },
    status: 400,
    error: { param: 'endpoint' },
  },
]

export const gatewayCases: Readonly<Record<string, readonly GatewayCase[]>> = {
  'keys: the gateway': keyCases,
  'bodies: the gateway': bodyCases,
  'fields: the gateway': fieldCases,
  'uploads: the gateway': uploadCases,
  'routes: the gateway': routeCases,
  'request ids: the gateway': labelCases,
  'Anthropic’s shape: the gateway': anthropicCases,
  'admin: the gateway': adminCases,
}

export function requestOf({ path, method, headers, body, chunked }: GatewayCase['send']): GatewayRequest {
  const own = headers ?? narrow
  const verb = method ?? 'POST'
  const sent = verb === 'GET' || verb === 'DELETE' ? null : (body ?? '')
  return {
    method: verb,
    path,
    headers: sent === null ? own : { 'content-type': 'application/json', ...own },
    body: sent,
    chunked: chunked ?? false,
  }
}

/** For senders based on fetch. Without a declared length the body is sent in pieces of 64 KB. */
export function fetchRequest(base: string, { method, path, headers, body, chunked }: GatewayRequest): Request {
  if (body === null) return new Request(base + path, { method, headers })
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  if (!chunked)
    return new Request(base + path, {
      method,
      headers: { ...headers, 'content-length': String(bytes.byteLength) },
      body: bytes as Uint8Array<ArrayBuffer>,
    })
  return new Request(base + path, { method, headers, body: inPieces(bytes), duplex: 'half' } as RequestInit)
}

function inPieces(bytes: Uint8Array): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.subarray(at, (at += 65_536)))
    },
  })
}

/** Runs the table against one gateway with `gatewayDocument`. `skip`: test names that do not apply, with the reason. */
export function gatewayContract(name: string, send: SendToGateway, skip: Readonly<Record<string, string>> = {}): void {
  for (const [subject, cases] of Object.entries(gatewayCases)) {
    describe(`${subject} of ${name}`, () => {
      for (const one of cases) {
        const reason = skip[one.name]
        if (reason !== undefined) it.skip(`${one.name} (${reason})`)
        else it(one.name, async () => holds(one, await send(requestOf(one.send))))
      }
    })
  }

  it(`reports of TTFT are neither taken nor shown by ${name} unless the configuration enables them`, async () => {
    const answers = [
      await send(
        requestOf({
          path: '/ttft_report',
          headers: {},
          body: '{"role":"pd","request_id":"a","prefill_queue_time_ms":1}',
        }),
      ),
      await send(requestOf({ path: '/ttft_report/a', method: 'GET', headers: {} })),
    ]
    expect(answers.map(({ status }) => status)).toEqual([404, 404])
    for (const answer of answers) expect(await answer.text()).not.toContain('combined')
  })
}

async function holds(expected: ExpectedError, response: Response): Promise<void> {
  const text = await response.text()
  expect(response.status, text).toBe(expected.status)
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.:=-]{1,128}$/)
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    if (typeof value === 'string') expect(response.headers.get(name), name).toBe(value)
    else expect(response.headers.get(name), name).toMatch(value)
  }
  if (expected.status >= 400) errorHolds(expected, JSON.parse(text) as Record<string, unknown>)
  if (expected.json !== undefined) expect(JSON.parse(text)).toEqual(expect.objectContaining(expected.json))
}

function errorHolds({ error, anthropic, message }: ExpectedError, body: Record<string, unknown>): void {
  const fields = body['error'] as Record<string, unknown>
  if (anthropic === undefined) {
    expect(Object.keys(body)).toEqual(['error'])
    expect(Object.keys(fields)).toEqual(['message', 'type', 'param', 'code'])
    if (error !== undefined) expect(fields).toMatchObject(error)
  } else {
    expect(body['type']).toBe('error')
    expect(fields['type']).toBe(anthropic)
  }
  expect(fields['message']).toEqual(expect.any(String))
  expect(fields['message']).not.toMatch(/secret-\d|10\.0\.0\.|node:|\.ts:\d/)
  if (message !== undefined) expect(fields['message']).toMatch(message)
}
