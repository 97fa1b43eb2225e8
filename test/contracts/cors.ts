/** CORS response headers (`cors`), as data, with a runner for any gateway. No case of the table needs an engine. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayDocument, gatewayKeys, type GatewayRequest, type SendToGateway } from './gateway.ts'

export const ours = 'https://chat.example.com'
const local = 'http://localhost:3000'
const foreign = 'https://evil.example.com'

export const corsDocument = (
  urls: readonly string[],
  cors: object = { origins: [ours, local], max_age_s: 60 },
): Record<string, unknown> => ({ ...gatewayDocument(urls), cors })

/** Lower-case names of all response headers that affect CORS and caches. */
export const corsHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => name === 'vary' || name.startsWith('access-control-')))

const exposed = { 'access-control-expose-headers': '*' }
/** Every response to an allowed page. */
export const readable = (origin = ours) => ({ 'access-control-allow-origin': origin, ...exposed, vary: 'origin' })

const chat = '/v1/chat/completions'
const key = { authorization: `Bearer ${gatewayKeys.narrow}` }
const body = JSON.stringify({ model: 'qwen', messages: [] })

const request = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  sent: string | null = null,
): GatewayRequest => ({ method, path, headers, body: sent, chunked: false })
const post = (headers: Readonly<Record<string, string>>, sent = body, path = chat): GatewayRequest =>
  request('POST', path, { 'content-type': 'application/json', ...headers }, sent)
const preflight = (path: string, origin: string, more: Readonly<Record<string, string>> = {}): GatewayRequest =>
  request('OPTIONS', path, { origin, 'access-control-request-method': 'POST', ...more })

interface CorsCase {
  readonly name: string
  readonly send: GatewayRequest
  readonly status: number
  readonly expected: Readonly<Record<string, string>>
}

// Preflight request of Chromium for OpenAI's SDK.
const requestedHeaders =
  'authorization,content-type,x-firstlight-options,x-session-id,x-stainless-arch,x-stainless-lang,x-stainless-retry-count'
const granted = (methods: string, origin = ours) => ({
  ...readable(origin),
  'access-control-allow-methods': methods,
  'access-control-max-age': '60',
})

const preflightCases: readonly CorsCase[] = [
  {
    name: 'lets a page in, with the headers it asks for, without a key',
    send: preflight(chat, ours, { 'access-control-request-headers': requestedHeaders }),
    status: 204,
    expected: { ...granted('POST'), 'access-control-allow-headers': requestedHeaders },
  },
  {
    name: 'lets in each origin of the list, named as it came',
    send: preflight(chat, local),
    status: 204,
    expected: granted('POST', local),
  },
  ...[
    '/v1/completions',
    '/v1/responses',
    '/v1/messages',
    '/v1/embeddings',
    '/rerank',
    '/tokenize',
    '/v1/responses/resp_1/cancel',
  ].map((path): CorsCase => ({
    name: `does so at ${path}`,
    send: preflight(path, ours),
    status: 204,
    expected: granted('POST'),
  })),
  ...['/v1/models', '/v1/models/Qwen/Qwen3-8B', '/health', '/version'].map((path): CorsCase => ({
    name: `names what ${path} takes`,
    send: preflight(path, ours),
    status: 204,
    expected: granted('GET, HEAD'),
  })),
  {
    name: 'names what a kept response takes',
    send: preflight('/v1/responses/resp_1', ours, { 'access-control-request-method': 'DELETE' }),
    status: 204,
    expected: granted('GET, HEAD, DELETE'),
  },
  {
    name: 'lets a page find out that it asks at a wrong address',
    send: preflight('/chat/completions', ours),
    status: 204,
    expected: granted('GET, POST'),
  },
  {
    name: 'allows nothing to a page of another origin',
    send: preflight(chat, foreign, { 'access-control-request-headers': requestedHeaders }),
    status: 204,
    expected: { vary: 'origin' },
  },
  {
    name: 'takes an origin that begins like ours for another',
    send: preflight(chat, `${ours}.evil.com`),
    status: 204,
    expected: { vary: 'origin' },
  },
  {
    name: 'takes another scheme for another origin',
    send: preflight(chat, 'http://chat.example.com'),
    status: 204,
    expected: { vary: 'origin' },
  },
  {
    name: 'takes another port for another origin',
    send: preflight(chat, `${ours}:8443`),
    status: 204,
    expected: { vary: 'origin' },
  },
  { name: 'knows no page without an origin', send: preflight(chat, 'null'), status: 204, expected: { vary: 'origin' } },
  {
    name: 'repeats nothing that is no name of a header',
    send: preflight(chat, ours, { 'access-control-request-headers': 'x-a, <script>' }),
    status: 204,
    expected: granted('POST'),
  },
  {
    name: 'repeats no list without end',
    send: preflight(chat, ours, { 'access-control-request-headers': 'x-a,'.repeat(1_100) }),
    status: 204,
    expected: granted('POST'),
  },
  {
    name: 'takes no other OPTIONS for one',
    send: request('OPTIONS', chat, { origin: ours }),
    status: 405,
    expected: readable(),
  },
  {
    name: 'nor one that comes from no page',
    send: request('OPTIONS', chat, { 'access-control-request-method': 'POST' }),
    status: 405,
    expected: {},
  },
]

const operators = [
  '/v1/firstlight/fleet',
  '/v1/firstlight/live',
  '/v1/firstlight/requests/x',
  '/v1/firstlight/decisions/x',
  '/metrics',
  '/ready',
  '/',
  '/dashboard',
  '/runbook',
]

const closedCases: readonly CorsCase[] = [
  ...operators.map((path): CorsCase => ({
    name: `lets no page in at ${path}`,
    send: preflight(path, ours),
    status: 405,
    expected: {},
  })),
  { name: 'nor at /v1/firstlight/route', send: preflight('/v1/firstlight/route', ours), status: 405, expected: {} },
  {
    name: 'nor at /v1/firstlight/kv-events',
    send: preflight('/v1/firstlight/kv-events', ours),
    status: 405,
    expected: {},
  },
  {
    name: 'nor at /v1/firstlight/engines/e0/drain',
    send: preflight('/v1/firstlight/engines/e0/drain', ours),
    status: 405,
    expected: {},
  },
  { name: 'nor at /lmcache/local', send: preflight('/lmcache/local/x', ours), status: 405, expected: {} },
  { name: 'nor where reports come in', send: preflight('/ttft_report', ours), status: 404, expected: {} },
  {
    name: 'shows no page the fleet, whatever its key',
    send: request('GET', '/v1/firstlight/fleet', { origin: ours, authorization: `Bearer ${gatewayKeys.admin}` }),
    status: 200,
    expected: {},
  },
  {
    name: 'shows no page the metrics',
    send: request('GET', '/metrics', { origin: ours, authorization: `Bearer ${gatewayKeys.admin}` }),
    status: 200,
    expected: {},
  },
  { name: 'shows no page what is ready', send: request('GET', '/ready', { origin: ours }), status: 200, expected: {} },
]

const answerCases: readonly CorsCase[] = [
  {
    name: 'lets a page read the models',
    send: request('GET', '/v1/models', { ...key, origin: ours }),
    status: 200,
    expected: readable(),
  },
  { name: 'lets a page read that its key is missing', send: post({ origin: ours }), status: 401, expected: readable() },
  {
    name: 'lets a page read that its body is no JSON',
    send: post({ ...key, origin: ours }, '{'),
    status: 400,
    expected: readable(),
  },
  {
    name: 'lets a page read that there is no such model',
    send: post({ ...key, origin: local }, '{"model":"gpt-9"}'),
    status: 404,
    expected: readable(local),
  },
  {
    name: 'lets a page read that its body is too large',
    send: post({ ...key, origin: ours }, ' '.repeat(65_537)),
    status: 413,
    expected: readable(),
  },
  {
    name: 'lets a page read that its body must not be compressed',
    send: post({ ...key, origin: ours, 'content-encoding': 'gzip' }),
    status: 415,
    expected: readable(),
  },
  {
    name: 'lets a page read what its key may not do',
    send: post({ ...key, origin: ours, 'x-firstlight-options': '{"priority":1}' }),
    status: 403,
    expected: readable(),
  },
  {
    name: 'lets a page read that its method is wrong',
    send: request('GET', chat, { ...key, origin: ours }),
    status: 405,
    expected: readable(),
  },
  {
    name: 'lets a page read that there is no such address',
    send: post({ ...key, origin: ours }, body, '/chat/completions'),
    status: 404,
    expected: readable(),
  },
  {
    name: 'lets a page read that a response is not known',
    send: request('GET', '/v1/responses/resp_1', { ...key, origin: ours }),
    status: 404,
    expected: readable(),
  },
  {
    name: 'lets a page read Anthropic’s errors',
    send: post({ origin: ours }, body, '/v1/messages'),
    status: 401,
    expected: readable(),
  },
  {
    name: 'lets a page of another origin read nothing',
    send: request('GET', '/v1/models', { ...key, origin: foreign }),
    status: 200,
    expected: { vary: 'origin' },
  },
  { name: 'nor its errors', send: post({ origin: foreign }), status: 401, expected: { vary: 'origin' } },
  { name: 'says nothing of pages to who is none', send: request('GET', '/v1/models', key), status: 200, expected: {} },
  { name: 'nor in errors', send: post({}), status: 401, expected: {} },
]

const everywhere = 'https://anywhere.example'
const starCases: readonly CorsCase[] = [
  {
    name: 'lets every page in where all are',
    send: preflight(chat, everywhere, { 'access-control-request-headers': 'authorization' }),
    status: 204,
    expected: {
      'access-control-allow-origin': '*',
      ...exposed,
      'access-control-allow-methods': 'POST',
      'access-control-max-age': '600',
      'access-control-allow-headers': 'authorization',
    },
  },
  {
    name: 'lets every page read an answer, and no cache keep one for each',
    send: request('GET', '/v1/models', { ...key, origin: everywhere }),
    status: 200,
    expected: { 'access-control-allow-origin': '*', ...exposed },
  },
  {
    name: 'lets pages without an origin read them too',
    send: post({ origin: 'null' }),
    status: 401,
    expected: { 'access-control-allow-origin': '*', ...exposed },
  },
  {
    name: 'still lets none in where operators look',
    send: request('GET', '/v1/firstlight/fleet', { origin: everywhere, authorization: `Bearer ${gatewayKeys.admin}` }),
    status: 200,
    expected: {},
  },
]

const silentCases: readonly CorsCase[] = [
  {
    name: 'says nothing of pages where `cors` is not there',
    send: request('GET', '/v1/models', { ...key, origin: ours }),
    status: 200,
    expected: {},
  },
  {
    name: 'lets none in',
    send: preflight(chat, ours, { 'access-control-request-headers': requestedHeaders }),
    status: 405,
    expected: {},
  },
  { name: 'nor read an error', send: post({ origin: ours }), status: 401, expected: {} },
]

const tables: readonly (readonly [string, Record<string, unknown>, readonly CorsCase[]])[] = [
  ['a list of origins', corsDocument(['http://127.0.0.1:9']), [...preflightCases, ...closedCases, ...answerCases]],
  ['every origin', corsDocument(['http://127.0.0.1:9'], { origins: ['*'] }), starCases],
  ['no origin', gatewayDocument(['http://127.0.0.1:9']), silentCases],
]

export interface CorsGateway {
  readonly send: SendToGateway
  close?(): Promise<void>
}

export function corsContract(name: string, open: (document: Record<string, unknown>) => Promise<CorsGateway>): void {
  describe.each(tables)(`pages before ${name} with %s: the gateway`, (_with, document, cases) => {
    let gateway: CorsGateway
    beforeAll(async () => {
      gateway = await open(document)
    })
    afterAll(() => gateway.close?.())

    it.each(cases)('$name', async ({ send, status, expected }) => {
      const response = await gateway.send(send)
      const text = await response.text()
      expect([response.status, corsHeaders(response.headers)], text).toEqual([status, expected])
      if (status === 204) expect(text).toBe('')
    })
  })
}
