/** Output tokens of streams that the gateway does not read, in views and metrics, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion, DONE, sseAnswer, sseEvent, token } from '../kit/sse.ts'

/** Output of each answer that the gateway reads. */
const READ_TOKENS = 8
const UNREAD_STREAMS = 11
const LIMIT_TOKENS = 3

/** On Workers, the end of a request follows its last byte. */
const PATIENT = { timeout: 15_000 }

const chatUsage = { prompt_tokens: 4, completion_tokens: READ_TOKENS, total_tokens: 4 + READ_TOKENS }
const usage = { input_tokens: 4, output_tokens: READ_TOKENS }
const messages = [{ role: 'user', content: 'hi' }]
const named = (type: string, fields: object = {}): string => `event: ${type}\n${sseEvent({ type, ...fields })}`

const text = (value: string, finish: string | null) => ({ index: 0, text: value, finish_reason: finish })

/** Path, body, whole answer and stream of each protocol. */
const PROTOCOLS = [
  ['/v1/chat/completions', { messages }, completion('hello', chatUsage), token('a') + DONE],
  [
    '/v1/completions',
    { prompt: 'hi' },
    { id: 'c', object: 'text_completion', choices: [text('a', 'stop')], usage: chatUsage },
    `${sseEvent({ choices: [text('a', null)] })}${sseEvent({ choices: [text('', 'stop')] })}data: [DONE]\n\n`,
  ],
  [
    '/v1/messages',
    { messages, max_tokens: 50 },
    { id: 'm', type: 'message', role: 'assistant', content: [{ type: 'text', text: 'a' }], usage },
    named('message_start', { message: { id: 'm', usage: { input_tokens: 4, output_tokens: 0 } } }) +
      named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'a' } }) +
      named('message_stop'),
  ],
  [
    '/v1/responses',
    { input: 'hi' },
    { id: 'r', object: 'response', status: 'completed', output: [], usage },
    named('response.output_text.delta', { delta: 'a', item_id: 'i', output_index: 0, content_index: 0 }) +
      named('response.completed', { response: { id: 'r', status: 'completed', usage } }),
  ],
] as const

export function unreadOutputContract(runtime: Runtime): void {
  describe(`streams that are not read by ${runtimeNames[runtime]}`, () => {
    let engine: FakeEngine
    let gateway: TestGateway

    beforeAll(async () => {
      engine = await FakeEngine.open(
        Object.fromEntries(
          PROTOCOLS.map(([path, , body, stream]) => [
            `POST ${path}`,
            ({ json }) => (json['stream'] === true ? sseAnswer([stream]) : { body }),
          ]),
        ),
      )
      gateway = await openGateway({ runtime, engines: [engine], pool: { observe_share: 0 } })
    })
    afterAll(async () => {
      await gateway.close()
      await engine.close()
    })

    const counted = async (): Promise<number> => {
      const view = await gateway.get('/v1/firstlight/usage')
      const { keys } = (await view.json()) as { keys: readonly { output_tokens: number }[] }
      return keys.reduce((sum, { output_tokens: tokens }) => sum + tokens, 0)
    }
    const ask = async (path: string, body: object): Promise<void> => {
      const answer = await gateway.post(path, { model: MODEL, ...body })
      expect(answer.status, await answer.text()).toBe(200)
    }

    it.each(PROTOCOLS)('the output of streams of %s counts as much as answers that were read', async (path, body) => {
      const before = await counted()
      await ask(path, body)
      await expect.poll(async () => (await counted()) - before, PATIENT).toBe(READ_TOKENS)
      for (let at = 0; at < UNREAD_STREAMS; at++) await ask(path, { ...body, stream: true })
      const all = READ_TOKENS * (1 + UNREAD_STREAMS)
      await expect.poll(async () => (await counted()) - before, PATIENT).toBe(all)
    })

    it('the output of a stream that is not read counts up to the limit of each of its answers', async () => {
      const path = '/v1/chat/completions'
      const before = await counted()
      await ask(path, { messages })
      await ask(path, { messages, stream: true, n: 2, max_tokens: LIMIT_TOKENS })
      await expect.poll(async () => (await counted()) - before, PATIENT).toBe(READ_TOKENS + 2 * LIMIT_TOKENS)
    })

    it('the metrics have the output of streams that are not read', async () => {
      const before = await counted()
      await ask('/v1/chat/completions', { messages })
      await ask('/v1/chat/completions', { messages, stream: true })
      await expect.poll(async () => (await counted()) - before, PATIENT).toBe(2 * READ_TOKENS)
      const init = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }
      const lines = await (await fetch(`${gateway.url}/metrics`, init)).text()
      const values = [...lines.matchAll(/^firstlight_key_output_tokens_total\{.*\} (\S+)$/gm)]
      expect(values.reduce((sum, [, value]) => sum + Number(value), 0)).toBe(await counted())
    })
  })
}
