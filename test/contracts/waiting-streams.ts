/** Streams that wait for an engine in the gateway, in all protocols, on any runtime. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { DONE, sseEvent, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const HEARTBEAT = ': ping\n'

const CHAT = { model: MODEL, messages: [{ role: 'user', content: 'hi' }] }

const CLOSING = sseEvent({ choices: [{ index: 0, text: '', finish_reason: 'stop' }] }) + 'data: [DONE]\n\n'

const named = (type: string, fields: object): string =>
  `event: ${type}\n${sseEvent({ type, sequence_number: 0, ...fields })}`

const MESSAGE =
  named('message_start', { message: { id: 'm', usage: { input_tokens: 1, output_tokens: 0 } } }) +
  named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
  named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'served' } }) +
  named('content_block_stop', { index: 0 }) +
  named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } }) +
  named('message_stop', {})

const RESPONSE =
  named('response.output_text.delta', { delta: 'served', item_id: 'i', output_index: 0, content_index: 0 }) +
  named('response.completed', {
    response: { id: 'r', status: 'completed', usage: { input_tokens: 1, output_tokens: 1 } },
  })

/** Path, body, an engine's stream, and the error event of each protocol. */
const PROTOCOLS = [
  ['chat', '/v1/chat/completions', CHAT, token('served') + DONE, 'data: {"error":{"message":'],
  [
    'completions',
    '/v1/completions',
    { model: MODEL, prompt: 'hi' },
    sseEvent({ choices: [{ index: 0, text: 'served' }] }) + CLOSING,
    'data: {"error":{"message":',
  ],
  ['messages', '/v1/messages', { ...CHAT, max_tokens: 9 }, MESSAGE, 'event: error\ndata: {"type":"error","error":{'],
  [
    'responses',
    '/v1/responses',
    { model: MODEL, input: 'hi' },
    RESPONSE,
    'event: error\ndata: {"type":"error","code":',
  ],
] as const

/** Reads a body piece by piece. The connection may end early. */
class Reading {
  text = ''
  isOver = false
  readonly #reader: ReadableStreamDefaultReader<string>

  constructor(response: Response) {
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    void this.#read()
      .catch(() => {})
      .finally(() => (this.isOver = true))
  }

  cancel(): Promise<void> {
    return this.#reader.cancel()
  }

  async #read(): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read()
      if (done) return
      this.text += value
    }
  }
}

interface Site {
  readonly engine: HeldEngine
  readonly gateway: TestGateway
}

export function waitingStreamsContract(runtime: Runtime): void {
  describe(`streams that wait for an engine, behind a gateway on ${runtimeNames[runtime]}`, () => {
    let site: Site
    /** Its pool stays paused, and requests wait for a second at most. */
    let closedSite: Site

    beforeAll(async () => {
      site = await open({ max_wait_ms: 10_000, no_engine_wait_ms: 60_000 })
      closedSite = await open({ max_wait_ms: 1_000, no_engine_wait_ms: 1_000 })
      await command(closedSite.gateway, 'pause')
    })

    afterAll(async () => {
      for (const { engine, gateway } of [site, closedSite]) {
        await gateway.close()
        await engine.close()
      }
    })

    beforeEach(() => command(site.gateway, 'pause'))

    afterEach(async () => {
      await command(site.gateway, 'resume')
      site.engine.finish()
      await site.gateway.idle()
    })

    async function open(queue: object): Promise<Site> {
      const engine = await HeldEngine.open({
        routes: (held) => ({
          'POST /v1/messages': (request) => held.hold(request),
          'POST /v1/responses': (request) => held.hold(request),
        }),
      })
      const gateway = await openGateway({
        runtime,
        engines: [{ id: 'a', url: engine.url, type: 'vllm' }],
        pool: { queue, observe_share: 1 },
        config: { limits: { heartbeat_ms: 50 } },
      })
      return { engine, gateway }
    }

    async function command(gateway: TestGateway, action: 'pause' | 'resume'): Promise<void> {
      const init = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }
      const options = action === 'pause' ? { mode: 'wait' } : { weights: 'same' }
      const answer = await gateway.post(`/v1/firstlight/pools/${MODEL}/${action}`, options, init)
      expect(answer.status).toBe(200)
    }

    const waiting = async (gateway: TestGateway): Promise<number> => {
      const { pools } = await gateway.fleet()
      return (pools[0] as unknown as { queue: { requests: number } }).queue.requests
    }

    it.each(PROTOCOLS)(
      'a stream of %s that waits gets heartbeats, and then the answer of the engine',
      async (_protocol, path, body, stream) => {
        const { engine, gateway } = site
        const response = await gateway.post(path, { ...body, stream: true })
        expect([response.status, response.headers.get('content-type')]).toEqual([
          200,
          'text/event-stream; charset=utf-8',
        ])
        expect(response.headers.get('x-request-id')).toBeTruthy()
        const reading = new Reading(response)
        await until(() => reading.text.length >= 3 * HEARTBEAT.length)
        expect(reading.text.replaceAll(HEARTBEAT, '')).toBe('')
        await command(gateway, 'resume')
        const held = await until(() => engine.held[0])
        held.begin(stream)
        held.end('')
        await until(() => reading.isOver)
        expect(reading.text.replaceAll(HEARTBEAT, '')).toBe(stream)
        await gateway.idle()
      },
    )

    it.each(PROTOCOLS)(
      'a stream of %s that waits in vain ends with the error event of its protocol, and never looks complete',
      async (_protocol, path, body, _stream, event) => {
        const { gateway } = closedSite
        const response = await gateway.post(path, { ...body, stream: true })
        expect(response.status).toBe(200)
        const reading = new Reading(response)
        await until(() => reading.isOver)
        const text = reading.text.replaceAll(HEARTBEAT, '')
        expect(text.slice(0, event.length)).toBe(event)
        expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed/)
        expect(text).not.toContain('127.0.0.1')
        await gateway.idle()
      },
    )

    it('a stream that waits gets the refusal of its engine as an error event', async () => {
      const { engine, gateway } = site
      const reading = new Reading(await gateway.chat({ stream: true }))
      await until(() => reading.text.length > 0)
      await command(gateway, 'resume')
      const held = await until(() => engine.held[0])
      held.send({ status: 400, body: { error: { message: 'bad temperature', type: 'BadRequestError', code: 400 } } })
      await until(() => reading.isOver)
      expect(reading.text).toContain('"message":"bad temperature","type":"BadRequestError"')
      await gateway.idle()
    })

    it('a stream whose client leaves while it waits leaves the queue', async () => {
      const { engine, gateway } = site
      const reading = new Reading(await gateway.chat({ stream: true }))
      await until(async () => (await waiting(gateway)) === 1)
      await reading.cancel()
      await until(async () => (await waiting(gateway)) === 0)
      await command(gateway, 'resume')
      await gateway.idle()
      expect(engine.held).toEqual([])
    })

    it('a request without a stream waits as before, and gets a status', async () => {
      const { engine, gateway } = site
      const answer = gateway.chat()
      await until(async () => (await waiting(gateway)) === 1)
      await command(gateway, 'resume')
      const held = await until(() => engine.held[0])
      held.send({ status: 400, body: { error: { message: 'no', type: 'BadRequestError', code: 400 } } })
      expect((await answer).status).toBe(400)
    })
  })
}
