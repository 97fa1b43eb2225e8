/** `priority` in a body orders an engine's queue: only a key with overrides, or the operator, can set it. */
import { expect, it } from 'vitest'
import { bodyWith, escapedAll, namesIn, PATHS, spellings } from './bodies.ts'
import { attackKeys, MODEL, post, PRIORITY, type AttackWorld } from './attack-fixture.ts'

const CHAT = '/v1/chat/completions'
const UPLOADS: readonly string[] = ['/v1/audio/transcriptions', '/v1/audio/translations']
const FORM = { 'content-type': 'multipart/form-data; boundary=b' }

const SPELLINGS: Readonly<Record<string, (value: string) => string>> = {
  ...spellings('priority'),
  'with one escaped letter': (value) => bodyWith(String.raw`"prior\u0069ty":${value},`),
  'before a harmless one': (value) => bodyWith(`"priority":${value},`, ',"priority":0'),
  'before null': (value) => bodyWith(`"priority":${value},`, `,"${escapedAll('priority')}":null`),
}

const form = (head: string, value = '-100'): string =>
  `--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n${MODEL}\r\n--b\r\n${head}\r\n\r\n${value}\r\n--b--\r\n`

const FORMS: Readonly<Record<string, string>> = {
  'as a field': form('content-disposition: form-data; name="priority"'),
  'without quotes': form('content-disposition: form-data; name=priority'),
  'as a file': form('content-disposition: form-data; name="priority"; filename="x"'),
  'longer than a text': form('content-disposition: form-data; name="priority"', ' '.repeat(20_000)),
  'not UTF-8': form('content-disposition: form-data; name="priority"', '\xff'),
}

interface TestRequest {
  readonly status: number
  readonly param: string | null
  /** Body that reached the engine; null: none did. */
  readonly body: string | null
}

export function priorities(world: () => AttackWorld): void {
  async function sent(
    key: keyof typeof attackKeys,
    path: string,
    body: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<TestRequest> {
    const { engine } = world()
    engine.calls.length = 0
    const response = await post(world(), path, body, { authorization: `Bearer ${attackKeys[key]}`, ...headers })
    const text = await response.text()
    const call = engine.calls[0]
    return {
      status: response.status,
      param: path.startsWith('/v1/messages') || response.status === 200 ? null : JSON.parse(text).error.param,
      body: call === undefined ? null : Buffer.from(call.body, 'latin1').toString('utf8'),
    }
  }

  it.each(Object.entries(SPELLINGS))('a priority %s is refused to a key that may not choose', async (_spelling, of) => {
    for (const path of PATHS)
      expect(await sent('client', path, of('-100'))).toEqual({
        status: 403,
        param: path.startsWith('/v1/messages') ? null : 'priority',
        body: null,
      })
  })

  it.each(Object.entries(FORMS))(
    'a priority of an upload %s is refused to a key that may not choose',
    async (_name, body) => {
      for (const path of UPLOADS)
        for (const key of ['client', 'ranked', 'rankedFree'] as const) {
          const { status, body: call } = await sent(key, path, body, FORM)
          expect([[400, 403].includes(status), call]).toEqual([true, null])
        }
    },
  )

  it('a priority in extra_body is refused to a key that may not choose', async () => {
    for (const key of ['client', 'ranked', 'rankedFree'] as const)
      expect(await sent(key, CHAT, bodyWith('"extra_body":{"priority":-100},'))).toEqual({
        status: 403,
        param: 'extra_body.priority',
        body: null,
      })
  })

  it('a priority passes from a key that may choose', async () => {
    for (const path of PATHS) {
      const json = bodyWith('"priority":-100,')
      expect(await sent('free', path, json)).toEqual({ status: 200, param: null, body: json })
    }
    const upload = await sent('free', UPLOADS[0]!, FORMS['as a field']!, FORM)
    expect([upload.status, upload.body]).toEqual([200, FORMS['as a field']])
  })

  it.each(Object.entries(SPELLINGS))('a priority %s is replaced by that of the key', async (_spelling, of) => {
    for (const key of ['ranked', 'rankedFree'] as const)
      for (const path of PATHS) {
        const { status, body } = await sent(key, path, of('-100'))
        expect(status).toBe(200)
        expect(body).not.toContain('-100')
        const read = (JSON.parse(body!.replace('\ufeff', '')) as { priority?: number }).priority
        // Endpoints without a queue of prompts get no priority.
        const queues = !/count_tokens|tokenize/.test(path)
        expect([read, namesIn(body!).includes('priority')]).toEqual(queues ? [PRIORITY, true] : [undefined, false])
      }
  })

  it('the priority of a key is set if the client sends none', async () => {
    const { body } = await sent('ranked', CHAT, bodyWith(''))
    expect((JSON.parse(body!) as { priority: number }).priority).toBe(PRIORITY)
  })

  it('the priority of a key wins over the options of a request', async () => {
    const options = JSON.stringify({ priority: -100 })
    for (const [json, headers] of [
      [bodyWith(`"firstlight":${options},`), {}],
      [bodyWith(''), { 'x-firstlight-options': options }],
    ] as const) {
      expect((await sent('ranked', CHAT, json, headers)).status).toBe(403)
      const { body } = await sent('rankedFree', CHAT, json, headers)
      expect((JSON.parse(body!) as { priority: number }).priority).toBe(PRIORITY)
    }
  })
}
