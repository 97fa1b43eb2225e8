/** The content type with which engines get the bodies of clients, on any runtime. */
import { describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'

const messages = [{ role: 'user', content: 'hi' }]
const bodies: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { messages },
  '/v1/completions': { prompt: 'hi' },
  '/v1/responses': { input: 'hi' },
  '/v1/messages': { messages, max_tokens: 1 },
  '/v1/embeddings': { input: 'hi' },
}
/** null: the client sends none. An engine would refuse the second and third, and read the last in another encoding. */
const types = [null, 'text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-16']

export function contentTypeContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`the content type of requests on ${name}`, () => {
    it('the content type of requests is JSON for every body that was read as JSON, whatever the client names it', async () => {
      const engine = await FakeEngine.open({ 'POST *': { body: { choices: [] } } })
      await using gateway = await openGateway({ runtime, engines: [engine] })
      for (const [path, body] of Object.entries(bodies))
        for (const type of types) {
          const bytes = new TextEncoder().encode(JSON.stringify({ model: MODEL, ...body }))
          const headers: Record<string, string> = type === null ? {} : { 'content-type': type }
          const response = await fetch(gateway.url + path, { method: 'POST', body: bytes, headers })
          await response.text()
          const { path: target, headers: received } = engine.posts.at(-1)!
          expect([response.status, target, received['content-type']], `${path} as ${type}`).toEqual([
            200,
            path,
            'application/json',
          ])
        }
      expect(engine.posts).toHaveLength(20)
      await gateway.idle()
      await engine.close()
    })

    it('the content type of requests of an upload is that of the client, with its boundary', async () => {
      const engine = await FakeEngine.open({ 'POST *': { body: { text: 'hi' } } })
      await using gateway = await openGateway({ runtime, engines: [engine] })
      const form = new FormData()
      form.set('model', MODEL)
      form.set('file', new Blob(['RIFF']), 'a.wav')
      const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', body: form })
      expect(response.status, await response.text()).toBe(200)
      expect(engine.posts[0]!.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)
      await engine.close()
    })
  })
}
