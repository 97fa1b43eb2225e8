import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generator } from '../../../packages/bench/conformance/fuzz.ts'
import { send } from '../../../packages/bench/conformance/http.ts'
import { describeStreams, type StreamCase } from '../../../packages/bench/conformance/sse-corpus.ts'
import { bodyText, requestBody, type Exchange, type VectorFile } from '../../../packages/bench/conformance/vector.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { recordedEngine, type RecordedEngine } from '../../kit/recorded-engine.ts'

const bytes = (file: string): Buffer => readFileSync(new URL(`../../vectors/${file}`, import.meta.url))
const exchangesOf = (file: string): readonly Exchange[] =>
  (JSON.parse(bytes(file).toString('utf8')) as VectorFile).exchanges
const { streams } = JSON.parse(bytes('sse/corpus.json').toString('utf8')) as { streams: StreamCase[] }

/** POSTs that the gateway forwards. */
const served =
  /^\/(v1\/(chat\/completions|completions|responses|messages|messages\/count_tokens|embeddings|audio\/(transcriptions|translations))|tokenize|detokenize)$/
/** Errors that the gateway returns itself, because it cannot parse or place the request. */
const unplaced =
  /^((speech-|translation-)?(no-key|wrong-key|bad-json|empty-body|array-body|unknown-model|no-model|stream-string|messages-bad-json|previous-response)|speech-json)/
const forwarded = ['openai.json', 'errors.json', 'cache.json', 'uploads.json']
  .flatMap(exchangesOf)
  .filter(({ name, request }) => request.method === 'POST' && served.test(request.path) && !unplaced.test(name))

let engine: RecordedEngine
let gateway: NodeGateway

beforeAll(async () => {
  engine = await recordedEngine([...forwarded, ...exchangesOf('busy.json')])
  gateway = await open(engine)
})
afterAll(async () => {
  await gateway.stop(AbortSignal.abort())
  engine.close()
})

/** A gateway with only this engine, so that there is no retry elsewhere. */
function open({ url }: RecordedEngine): Promise<NodeGateway> {
  const pools = [
    { model: 'tiny', policy: 'round_robin', retry: { share: 0, min_per_s: 0 }, engines: [{ id: 'a', url }] },
  ]
  return startNodeGateway({ clusters: [{ id: 'lab', pools }] })
}

function ask({ name, request }: Exchange): ReturnType<typeof send> {
  const body = requestBody(request)
  const headers = { ...request.headers, 'x-request-id': name }
  return send({
    url: gateway.url,
    method: request.method,
    path: request.path,
    headers,
    ...(body === null ? {} : { body }),
  })
}

describe('responses of a real engine arrive unchanged, and the engine gets the client’s request', () => {
  it('in 110 exchanges and more', () => expect(forwarded.length).toBeGreaterThan(110))

  it.each(forwarded.map((exchange) => [exchange.name, exchange] as const))('%s', async (name, exchange) => {
    const { status, headers, body } = await ask(exchange)
    expect({ status, type: headers['content-type'], body: body.toString('utf8') }).toEqual({
      status: exchange.response.status,
      type: exchange.response.headers['content-type'],
      body: bodyText(exchange.response),
    })
    const sent = Buffer.from(requestBody(exchange.request)!).toString('utf8')
    const got = engine.got.get(name)!
    // Two edits are expected: the request for usage, and the removal of fields that only engines may send to each
    // other.
    const edited = name === 'chat-kv-transfer-params' || (/"stream":true/.test(sent) && !sent.includes('include_usage'))
    if (!edited) expect(got).toBe(sent)
    else expect(unedited(got)).toEqual(unedited(sent))
  })

  it.each(exchangesOf('busy.json').map((exchange) => [exchange.name, exchange] as const))(
    'but for a busy engine’s 503, which is ours to say when nobody else is left: %s',
    async (_, exchange) => {
      const { status, headers, body } = await ask(exchange)
      expect(status).toBe(429)
      expect(JSON.parse(body.toString('utf8'))).toMatchObject({ error: { code: 'engines_full' } })
      expect(Number(headers['retry-after'])).toBeGreaterThan(0)
    },
  )
})

/** Removes what the gateway may add or remove. */
function unedited(text: string): unknown {
  const { stream_options: _, kv_transfer_params: __, ...rest } = JSON.parse(text) as Record<string, unknown>
  return rest
}

describe('streams arrive byte for byte, wherever they are cut', () => {
  // A stream with only a "busy" error is not sent to the client: see below.
  const whole = streams.filter(
    ({ whole: ends, done, error, file }) => ends && (done || error || file === 'no-done.sse') && file !== 'busy.sse',
  )
  let player: RecordedEngine
  let through: NodeGateway
  beforeAll(async () => {
    player = await recordedEngine([])
    through = await open(player)
  })
  afterAll(async () => {
    await through.stop(AbortSignal.abort())
    player.close()
  })

  const request = { model: 'tiny', prompt: 'x', stream: true, stream_options: { include_usage: true } }
  const stream = async (text: Buffer, offsets: readonly number[], body: object = request): Promise<string> => {
    player.stream(text, offsets)
    return (await send({ url: through.url, method: 'POST', path: '/v1/completions', body })).body.toString('utf8')
  }

  it.each(whole.map(({ file, says }) => [says, file]))('%s', async (_, file) => {
    const text = bytes(`sse/${file}`)
    const random = generator(text.length)
    const anywhere = Array.from({ length: 40 }, () => Math.floor(random() * text.length)).sort((x, y) => x - y)
    for (const offsets of [
      [],
      anywhere,
      Array.from({ length: Math.min(text.length - 1, 600) }, (_unused, at) => at + 1),
    ]) {
      expect(await stream(text, offsets)).toBe(text.toString('utf8'))
    }
  })

  // Usage in every event stays, and no engine splits a record into several lines.
  it.each(
    whole.filter(({ usage, file }) => usage !== null && !/each|lines/.test(file)).map(({ file, says }) => [says, file]),
  )('a stream has no usage record if only the gateway requested it: %s', async (_, file) => {
    const text = bytes(`sse/${file}`)
    const seen = describeStreams(
      { [file]: await stream(text, [], { ...request, stream_options: undefined }) },
      new Set(),
    )[0]!
    const { data_events, text: content, done } = streams.find((entry) => entry.file === file)!
    expect(seen).toMatchObject({ data_events: data_events - 1, text: content, done, usage: null })
  })
})

describe('a stream of a busy engine whose error follows its head', () => {
  it('ends in the gateway’s error if no engine is left', async () => {
    const player = await recordedEngine([])
    const through = await open(player)
    player.stream(bytes('sse/busy.sse'), [])
    const { status, body } = await send({
      url: through.url,
      method: 'POST',
      path: '/v1/completions',
      body: { model: 'tiny', prompt: 'x', stream: true },
    })
    expect(status).toBe(429)
    expect(JSON.parse(body.toString('utf8'))).toMatchObject({ error: { code: 'engines_full' } })
    await through.stop(AbortSignal.abort())
    player.close()
  })
})

describe('a stream that ends too early never looks complete', () => {
  it('ends in the middle of an event', async () => {
    const player = await recordedEngine([])
    const through = await open(player)
    const text = bytes('sse/cut.sse')
    player.stream(text, [])
    const request = {
      url: through.url,
      method: 'POST',
      path: '/v1/completions',
      body: { model: 'tiny', prompt: 'x', stream: true },
    } as const
    const seen = await send(request).then(
      ({ body }) => body.subarray(text.length - 40).toString('utf8'),
      () => 'the connection broke',
    )
    expect(seen).toMatch(/"error"|the connection broke/)
    expect(seen).not.toContain('[DONE]')
    await through.stop(AbortSignal.abort())
    player.close()
  })
})

describe('the list of streams', () => {
  it('the list of streams equals the recorded files', () => {
    const files = Object.fromEntries(streams.map(({ file }) => [file, bytes(`sse/${file}`).toString('utf8')]))
    expect(describeStreams(files, new Set(streams.filter(({ made }) => made).map(({ file }) => file)))).toEqual(streams)
  })
})
