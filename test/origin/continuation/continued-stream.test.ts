import { expect, it } from 'vitest'
import type { Log } from '../../../src/ports/log.ts'
import { openGateway } from '../../../src/platform/node/embed.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { sseAnswer, token } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const document = (engines: readonly FakeEngine[]): string =>
  JSON.stringify({
    version: 1,
    open: true,
    limits: { write_ms: 50 },
    clusters: [
      {
        id: 'here',
        pools: [
          {
            model: 'm',
            retry: { mid_stream: 'ids' },
            engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type: 'vllm' })),
          },
        ],
      },
    ],
  })

const chat = (): Request =>
  new Request('http://gateway/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream: true, max_tokens: 8, messages: [{ role: 'user', content: 'hi' }] }),
  })

/** A log that keeps the fields of its `request` lines. */
function recordingLog(): { readonly log: Log; readonly requests: Record<string, unknown>[] } {
  const requests: Record<string, unknown>[] = []
  const line = (event: string, fields: Record<string, unknown> = {}): void =>
    void (event === 'request' && requests.push(fields))
  return { log: { debug: line, info: line, warn: line, error: line } as unknown as Log, requests }
}

it('a stream that another engine may continue ends after `write_ms` if its client reads nothing', async () => {
  await using engine = await FakeEngine.open({ 'POST *': sseAnswer([token('a')], { end: 'hang' }) })
  await using other = await FakeEngine.open({ 'POST *': sseAnswer([token('a')], { end: 'hang' }) })
  const { log, requests } = recordingLog()
  const gateway = await openGateway(document([engine, other]), { log })
  try {
    const response = await gateway.fetch(chat())
    expect(response.status).toBe(200)
    await until(() => requests.length > 0)
    expect(requests[0]).toMatchObject({ result: 'client_gone' })
    await until(() => [engine, other].every(({ running }) => running === 0))
    await expect(response.text()).rejects.toThrow('truncated')
  } finally {
    await gateway.close()
  }
})
