/** JSON that two parsers could read differently, and fields that only the gateway may send to engines. */
import { expect, it } from 'vitest'
import { ALIAS, attackKeys, chat, MODEL, post, SALT, type AttackWorld } from './attack-fixture.ts'

const CHAT = '/v1/chat/completions'
export const PATHS: readonly string[] = [
  CHAT,
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/messages/count_tokens',
  '/v1/embeddings',
  '/tokenize',
]
/** A body that every endpoint accepts, with members at its beginning and end. */
export const bodyWith = (first: string, last = '', model = JSON.stringify(MODEL)): string =>
  `{${first}"model":${model},"messages":[{"role":"user","content":"hi"}],"prompt":"hi","input":"hi","max_tokens":4${last}}`

export const escapedAll = (name: string): string =>
  [...name].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')

/** Spellings of one name in JSON. */
export const spellings = (name: string): Readonly<Record<string, (value: string) => string>> => ({
  'as it is': (value) => bodyWith(`"${name}":${value},`),
  'behind everything': (value) => bodyWith('', `,"${name}":${value}`),
  'in escapes': (value) => bodyWith(`"${escapedAll(name)}":${value},`),
  'in capital escapes': (value) =>
    bodyWith(`"${escapedAll(name).replaceAll(/\\u00../g, (e) => `\\u00${e.slice(4).toUpperCase()}`)}":${value},`),
  'with one escape': (value) => bodyWith(`"${name.replace('_', String.raw`\u005f`)}":${value},`),
  twice: (value) => bodyWith(`"${name}":${value},`, `,"${name}":${value}`),
  'twice, once in escapes': (value) => bodyWith(`"${escapedAll(name)}":${value},`, `,"${name}":${value}`),
  'three times': (value) => bodyWith(`"${name}":null,"${name}":${value},`, `,"${escapedAll(name)}":${value}`),
  'among blanks': (value) => bodyWith(`\t"${name}"\r\n : \n${value} ,`),
  'behind a byte order mark': (value) => `\ufeff${bodyWith(`"${name}":${value},`)}`,
})

/** Every decoded name in a document, with duplicates. */
export const namesIn = (json: string): string[] =>
  [...json.matchAll(/"(?:[^"\\]|\\.)*"(?=\s*:)/g)].map(([name]) => JSON.parse(name) as string)

const PARAMS = '{"do_remote_prefill":true,"remote_host":"10.0.0.1","remote_port":1,"remote_block_ids":[1]}'
const IN_XARGS: Readonly<Record<string, string>> = {
  'as it is': `"vllm_xargs":{"kv_transfer_params":${PARAMS}},`,
  'under an escaped name': `"${escapedAll('vllm_xargs')}":{"kv_transfer_params":${PARAMS}},`,
  'in escapes': `"vllm_xargs":{"a":1,"${escapedAll('kv_transfer_params')}":${PARAMS}},`,
  'in the last of two': `"vllm_xargs":{"a":1},"vllm_xargs":{"kv_transfer_params":${PARAMS},"a":1},`,
  twice: `"vllm_xargs":{"kv_transfer_params":${PARAMS},"kv_transfer_params":${PARAMS}},`,
}

const utf16 = (text: string, littleEndian: boolean): Uint8Array<ArrayBuffer> =>
  Uint8Array.from([...text].flatMap((c) => (littleEndian ? [c.charCodeAt(0), 0] : [0, c.charCodeAt(0)])))
const bytesOf = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(text, 'latin1'))

const NO_JSON: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>> = {
  'UTF-16, little endian': utf16(chat(), true),
  'UTF-16, big endian': utf16(chat(), false),
  'UTF-16 with its mark': Uint8Array.from([0xff, 0xfe, ...utf16(chat(), true)]),
  'an overlong quote': bytesOf(chat().replace('"hi"', '\xc0\xa2hi\xc0\xa2')),
  'an overlong NUL': bytesOf(chat({ user: 'USER' }).replace('USER', '\xc0\x80')),
  'a surrogate in UTF-8': bytesOf(chat({ user: 'USER' }).replace('USER', '\xed\xa0\x80')),
  'a cut character': bytesOf(chat({ user: 'USER' }).replace('USER', '\xe2\x82')),
  'a byte beyond UTF-8': bytesOf(chat({ user: 'USER' }).replace('USER', '\xf8\x88\x80\x80\x80')),
  Infinity: chat({ top_p: 'X' }).replace('"X"', 'Infinity'),
  '-Infinity': chat({ top_p: 'X' }).replace('"X"', '-Infinity'),
  'a hexadecimal number': chat({ top_p: 'X' }).replace('"X"', '0x1'),
  'a leading zero': chat({ top_p: 'X' }).replace('"X"', '01'),
  'a number that ends with a point': chat({ top_p: 'X' }).replace('"X"', '1.'),
  'a comment': chat().replace('{', '{/* x */'),
  'a line comment': `${chat()}// x`,
  'a comma too many': chat().replace(/\}$/, ',}'),
  'single quotes': chat().replaceAll('"', "'"),
  'a name without quotes': chat().replace('"model"', 'model'),
  'bytes behind the document': `${chat()}x`,
  'two documents': chat() + chat(),
  'NUL behind the document': `${chat()}\0`,
  'two byte order marks': `\ufeff\ufeff${chat()}`,
  'a control character in a text': chat({ user: 'USER' }).replace('USER', 'a\nb'),
  'an escape there is not': chat({ user: 'USER' }).replace('USER', String.raw`\x41`),
  'an escape cut short': chat({ user: 'USER' }).replace('USER', String.raw`\u00`),
  'a blank JSON does not know': `\u00a0${chat()}`,
}

export function bodies(world: () => AttackWorld): void {
  /** The only request that reached the engine. */
  async function sent(
    path: string,
    body: string | Uint8Array<ArrayBuffer>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ status: number; body: string | null }> {
    const { engine } = world()
    engine.calls.length = 0
    const response = await post(world(), path, body, headers)
    await response.text()
    expect(engine.calls.length).toBe(response.status === 200 ? 1 : 0)
    const call = engine.calls[0]
    return {
      status: response.status,
      body: call === undefined ? null : Buffer.from(call.body, 'latin1').toString('utf8'),
    }
  }

  for (const name of ['kv_transfer_params', 'ec_transfer_params']) {
    it.each(Object.entries(spellings(name)))(`${name} %s reaches no engine`, async (_spelling, of) => {
      for (const path of PATHS) {
        const { status, body } = await sent(path, of(PARAMS))
        expect([200, 400]).toContain(status)
        if (body !== null) expect(namesIn(body)).not.toContain(name)
      }
    })
  }

  it.each(Object.entries(IN_XARGS))(
    'kv_transfer_params in vllm_xargs, %s, reaches no engine',
    async (_spelling, members) => {
      for (const path of PATHS) {
        const { status, body } = await sent(path, bodyWith(members))
        expect([200, 400]).toContain(status)
        if (body !== null) expect(namesIn(body)).not.toContain('kv_transfer_params')
      }
    },
  )

  it.each(Object.entries(spellings('cache_salt')))(
    'a client’s cache_salt %s stays inside the key’s',
    async (_spelling, of) => {
      const { status, body } = await sent(CHAT, of('"mine"'), { authorization: `Bearer ${attackKeys.salted}` })
      expect(status).toBe(200)
      expect((JSON.parse(body!.replace('\ufeff', '')) as { cache_salt: string }).cache_salt).toBe(`${SALT}:mine`)
      for (const [, value] of body!.matchAll(/"(?:cache_salt|\\u0063[^"]*)"\s*:\s*"([^"]*)"/g))
        expect(value).toBe(`${SALT}:mine`)
    },
  )

  it.each(['null', '""'])('a cache_salt of %s leaves the key’s', async (value) => {
    const { status, body } = await sent(CHAT, bodyWith(`"cache_salt":${value},`), {
      authorization: `Bearer ${attackKeys.salted}`,
    })
    expect([200, 400]).toContain(status)
    if (body !== null) expect((JSON.parse(body) as { cache_salt: string }).cache_salt).toMatch(new RegExp(`^${SALT}`))
  })

  it.each(['7', '["mine"]', '{"a":"mine"}', 'true'])('a cache_salt of %s is refused', async (value) => {
    expect(
      (await sent(CHAT, bodyWith(`"cache_salt":${value},`), { authorization: `Bearer ${attackKeys.salted}` })).status,
    ).toBe(400)
  })

  it.each([
    ['in escapes', `{"${escapedAll('model')}":"${ALIAS}","messages":[]}`],
    ['whose value is in escapes', `{"model":"${escapedAll(ALIAS)}","messages":[]}`],
    ['behind another model', `{"model":"nobody","messages":[],"model":"${ALIAS}"}`],
    ['behind another model, in escapes', `{"model":"nobody","messages":[],"${escapedAll('model')}":"${ALIAS}"}`],
    ['behind one that is no text', `{"model":{"a":[1]},"messages":[],"model":"${ALIAS}"}`],
  ])('an alias %s reaches the engine as the served model', async (_spelling, json) => {
    const { status, body } = await sent(CHAT, json)
    expect(status).toBe(200)
    expect((JSON.parse(body!) as { model: string }).model).toBe(MODEL)
  })

  it.each([
    ['an object’s prototype', '"__proto__":{"model":"x","stream":true,"cache_salt":"x"},'],
    ['a constructor', '"constructor":{"prototype":{"stream":true}},"toString":1,"hasOwnProperty":null,'],
    ['a prototype inside messages', '"metadata":{"__proto__":{"polluted":"yes"}},'],
    ['a lone surrogate', String.raw`"user":"\ud800","metadata":{"\udfff":1},`],
    ['a NUL in a name', String.raw`"a\u0000b":1,`],
    ['a number beyond all numbers', '"seed":1e999,'],
    ['a number with many digits', `"seed":${'9'.repeat(400)},`],
    ['the smallest zero', '"temperature":-0,'],
  ])('%s passes unchanged and has no effect here', async (_name, members) => {
    const json = bodyWith(members)
    const { status, body } = await sent(CHAT, json)
    expect(status).toBe(200)
    expect(body).toBe(json)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  it.each(Object.entries(NO_JSON))('%s is refused, and reaches no engine', async (_name, body) => {
    expect((await sent(CHAT, body)).status).toBe(400)
  })

  it.each(['gzip', 'br', 'deflate', 'zstd', 'compress', 'x-gzip', 'identity, gzip', 'GZIP'])(
    'a body said to be %s is refused unread',
    async (encoding) => {
      expect((await sent(CHAT, chat(), { 'content-encoding': encoding })).status).toBe(415)
    },
  )
}
