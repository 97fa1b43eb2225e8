/** What engines obey and no client may say: headers, fields of bodies, names of adapters. On any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DENIED_FIELDS, PRIVATE_HEADERS, REMOVED_FIELDS } from '../../src/engines/engine-registry.ts'
import { endpoints } from '../../src/protocols/protocols.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

const FORGED = 'forged-7'

/** Fields that any JSON endpoint needs, so that each request reaches its engine. */
const BODY = {
  model: MODEL,
  messages: [{ role: 'user', content: 'hi' }],
  max_tokens: 4,
  input: 'hi',
  prompt: 'hi',
  tokens: [1],
  token_ids: [1],
  query: 'hi',
  documents: ['hi'],
  text_1: 'hi',
  text_2: 'hi',
  voice: 'a',
  sampling_params: { max_tokens: 4 },
}

const JSON_PATHS = endpoints.filter(({ form }) => !form).map(({ path }) => path)
const FORM_PATHS = endpoints.filter(({ form }) => form).map(({ path }) => path)

/** Spellings that servers read as one name. */
const spellings = (name: string): string[] => [name, name.replaceAll('-', '_'), name.toUpperCase()]

export function privateRequestsContract(runtime: Runtime): void {
  describe(`a gateway on ${runtimeNames[runtime]} passes to no engine`, () => {
    let engine: FakeEngine
    let sglang: FakeEngine
    let gateway: TestGateway

    beforeAll(async () => {
      engine = await FakeEngine.open({ 'POST *': { body: completion() } })
      sglang = await FakeEngine.open({ 'POST *': { body: completion() } })
      const pools = [
        { model: MODEL, engines: [{ id: 'a', url: engine.url, type: 'vllm' }] },
        { model: 'base', adapters: ['sql'], engines: [{ id: 's', url: sglang.url, type: 'sglang' }] },
      ]
      gateway = await openGateway({ runtime, config: { clusters: [{ id: 'c', pools }] } })
    })

    afterAll(async () => {
      await gateway.close()
      await engine.close()
      await sglang.close()
    })

    const headersAt = (path: string): string[] =>
      engine.posts.filter((post) => post.path === path).map(({ head }) => head)

    const forgedHeaders = Object.fromEntries(
      [...PRIVATE_HEADERS].flatMap((name) => spellings(name).slice(0, 2)).map((name) => [name, FORGED]),
    )

    it.each(JSON_PATHS)('a header that it obeys: %s', async (path) => {
      await (await gateway.post(path, BODY, { headers: forgedHeaders })).text()
      const upper = Object.fromEntries([...PRIVATE_HEADERS].map((name) => [name.toUpperCase(), FORGED]))
      await (await gateway.post(path, { ...BODY, stream: false }, { headers: upper })).text()
      expect(headersAt(path).length).toBeGreaterThan(0)
      for (const head of headersAt(path)) expect(head).not.toContain(FORGED)
    })

    it.each(FORM_PATHS)('a header that it obeys, with a form: %s', async (path) => {
      const form = new FormData()
      form.set('model', MODEL)
      form.set('prompt', 'hi')
      form.set('file', new Blob(['x']), 'x.wav')
      form.set('image', new Blob(['x']), 'x.png')
      await (await fetch(gateway.url + path, { method: 'POST', body: form, headers: forgedHeaders })).text()
      expect(headersAt(path)).toHaveLength(1)
      expect(headersAt(path)[0]).not.toContain(FORGED)
    })

    it('a header that it obeys, in a call about a stored response', async () => {
      engine.routes['POST /v1/responses'] = { body: { id: 'resp_1', object: 'response', output: [] } }
      await (await gateway.post('/v1/responses', { model: MODEL, input: 'hi', store: true })).text()
      const answer = await fetch(`${gateway.url}/v1/responses/resp_1`, { headers: forgedHeaders })
      expect(answer.status).toBe(200)
      const calls = engine.requests.filter(({ path }) => path === '/v1/responses/resp_1')
      expect(calls).toHaveLength(1)
      expect(calls[0]!.head).not.toContain(FORGED)
    })

    it('a field that it obeys, at the top of a body, or in `extra_body` where an engine reads that', async () => {
      const isUnwrapped = (field: string): boolean => DENIED_FIELDS.includes(field)
      for (const field of [...REMOVED_FIELDS, ...DENIED_FIELDS])
        for (const more of [
          { [field]: FORGED },
          ...(isUnwrapped(field) ? [{ extra_body: { [field]: FORGED } }] : []),
        ]) {
          engine.posts.length = 0
          await (await gateway.chat(more)).text()
          for (const { json } of engine.posts) expect(json).not.toHaveProperty(field)
          for (const { text } of engine.posts) expect(text).not.toContain(FORGED)
        }
    })

    it('the name of an adapter without its base model, where that would be answered by the base model', async () => {
      expect((await gateway.chat({ model: 'sql' })).status).toBe(200)
      expect(sglang.posts.at(-1)!.json['model']).toBe('base:sql')
      expect((await gateway.chat({ model: 'base' })).status).toBe(200)
      expect(sglang.posts.at(-1)!.json['model']).toBe('base')
    })

    it.each(['other', 'base:other', 'base:sql', 'sql:base'])('an adapter that is not configured: %s', async (model) => {
      sglang.posts.length = 0
      const refused = await gateway.chat({ model })
      expect([refused.status, await refused.text()]).toEqual([404, expect.stringContaining('model_not_found')])
      expect(sglang.posts).toEqual([])
    })

    it('an adapter that the client names beside the model', async () => {
      sglang.posts.length = 0
      for (const more of [{ lora_path: 'sql' }, { extra_body: { lora_path: 'sql' } }])
        expect((await gateway.chat({ model: 'base', ...more })).status).toBe(400)
      expect(sglang.posts).toEqual([])
    })

    it('a call that loads or pauses: no route of clients leads there', async () => {
      engine.posts.length = 0
      const paths = ['/v1/load_lora_adapter', '/load_lora_adapter', '/pause', '/sleep', '/update_weights_from_disk']
      for (const path of paths) expect((await gateway.post(path, { lora_name: 'x', lora_path: '/x' })).status).toBe(404)
      expect(engine.posts).toEqual([])
    })
  })
}
