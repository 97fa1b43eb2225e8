/** Limits of a body: choices, output tokens, nesting, media from other hosts, fields of engines’ own protocols. */
import { expect, it } from 'vitest'
import { bodyWith, escapedAll, PATHS } from './bodies.ts'
import { attackKeys, MODEL, post, type AttackWorld } from './attack-fixture.ts'

const CHAT = '/v1/chat/completions'
const FORM = { 'content-type': 'multipart/form-data; boundary=b' }

/** Members, and the name in the error. */
const OVER: Readonly<Record<string, readonly [members: string, param: string, limit: string]>> = {
  'too many choices': ['"n":129,', 'n', 'limits.max_n'],
  'too many choices as a text': ['"n":"100_000",', 'n', 'limits.max_n'],
  'too many choices as a fraction': ['"n":100000.0,', 'n', 'limits.max_n'],
  'too many choices in escapes': [`"${escapedAll('n')}":129,`, 'n', 'limits.max_n'],
  'too many choices behind few': ['"n":1,"n":129,', 'n', 'limits.max_n'],
  'too many choices to draw from': ['"best_of":129,', 'best_of', 'limits.max_n'],
  'too many choices in extra_body': ['"extra_body":{"n":129},', 'extra_body.n', 'limits.max_n'],
  'too many tokens of a response': ['"max_output_tokens":1001,', 'max_output_tokens', 'limits.max_output_tokens'],
  'too many tokens of a chat': ['"max_completion_tokens":1001,', 'max_completion_tokens', 'limits.max_output_tokens'],
  'more tokens than there are': ['"max_completion_tokens":1e308,', 'max_completion_tokens', 'limits.max_output_tokens'],
  'tokens without end': ['"max_completion_tokens":1e999,', 'max_completion_tokens', 'limits.max_output_tokens'],
}

const DENIED: readonly string[] = [
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'data_parallel_rank',
  'routed_dp_rank',
  'disagg_prefill_dp_rank',
  'lora_path',
  'session_params',
  'custom_logit_processor',
]

const part = (url: string): string => `{"type":"image_url","image_url":{"url":${JSON.stringify(url)}}}`
/** Contents of messages that make an engine send a request to a host. */
const FOREIGN: Readonly<Record<string, string>> = {
  'an image': part('https://evil.test/a.png'),
  'an image whose URL is a text': '{"type":"image_url","image_url":"http://evil.test/a.png"}',
  'an image of a response': '{"type":"input_image","image_url":"http://evil.test/a.png"}',
  'an image of Anthropic’s': '{"type":"image","source":{"type":"url","url":"http://evil.test/a.png"}}',
  'a document of Anthropic’s': '{"type":"document","source":{"type":"url","url":"http://evil.test/a.pdf"}}',
  'a sound': '{"type":"audio_url","audio_url":{"url":"http://evil.test/a.mp3"}}',
  'a video': '{"type":"video_url","video_url":{"url":"http://evil.test/a.mp4"}}',
  'a file': '{"type":"input_file","file_url":"http://evil.test/a.pdf"}',
  'an image without a type': '{"image_url":"http://evil.test/a.png"}',
  'an image in escapes': `{"type":"image_url","${escapedAll('image_url')}":{"url":"${escapedAll('http://evil.test')}"}}`,
  'a result of a tool': `{"type":"tool_result","content":[${part('http://evil.test/a.png')}]}`,
  'a long URL': part(`http://evil.test/${'a'.repeat(2_000_000)}`),
  'a long URL in escapes': `{"image_url":"${escapedAll(`http://evil.test/${'a'.repeat(300_000)}`)}"}`,
  'a file of the engine': part('file:///etc/passwd'),
  'another scheme': part('ftp://images.test/a.png'),
  'a host that ends like an allowed one': part('https://evilimages.test/a.png'),
  'a host that begins like an allowed one': part('https://images.test.evil.test/a.png'),
  'the domain of a wildcard itself': part('https://cdn.test/a.png'),
  'an allowed host as a user': part('https://images.test@evil.test/a.png'),
  'an allowed host and a port as a user': part('https://images.test:80@evil.test/a.png'),
  'an allowed host before a backslash': part(String.raw`https://images.test\@evil.test/a.png`),
  'an allowed host before a line break': part('https://images.test\n@evil.test/a.png'),
  'a blank before the URL': part(' https://evil.test/a.png'),
}
const ALLOWED: Readonly<Record<string, string>> = {
  'an allowed host': part('https://images.test/a.png?x=http://evil.test'),
  'an allowed host in capitals, with a port': part('HTTPS://Images.Test:8443/a.png'),
  'a host of an allowed domain': part('http://eu.west.cdn.test/a.png'),
  'its own bytes': part('data:image/png;base64,AAAA'),
  'megabytes of its own': part(`data:image/png;base64,${'A'.repeat(2_000_000)}`),
  'a link in a text': '{"type":"text","text":"see http://evil.test/a.png"}',
  'a citation': '{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"http://evil.test/"}]}',
}
const withContent = (content: string): string =>
  `{"model":"${MODEL}","messages":[{"role":"user","content":[${content}]}],"input":[{"role":"user","content":[${content}]}]}`

export function limits(world: () => AttackWorld): void {
  async function sent(path: string, body: string, headers: Readonly<Record<string, string>> = {}) {
    const { engine } = world()
    engine.calls.length = 0
    const response = await post(world(), path, body, { authorization: `Bearer ${attackKeys.client}`, ...headers })
    const { error } = JSON.parse(await response.text()) as { error?: Record<string, string> }
    return { status: response.status, error, forwarded: engine.calls.map((one) => one.body) }
  }
  const refused = async (path: string, body: string, param: string | null, limit: string): Promise<void> => {
    const { status, error, forwarded } = await sent(path, body)
    expect([status, forwarded]).toEqual([400, []])
    expect(error!['message']).toContain(limit)
    if (!path.startsWith('/v1/messages')) expect([error!['code'], error!['param']]).toEqual(['invalid_value', param])
  }

  it.each(Object.entries(OVER))('%s are refused', async (_name, [members, param, limit]) => {
    for (const path of PATHS) await refused(path, bodyWith(members), param, limit)
  })

  it('an error names the value and the limit', async () => {
    const { error } = await sent(CHAT, bodyWith('"n":4711,'))
    expect(error!['message']).toMatch(/4711.*128/)
  })

  it('as much as the limits allow passes', async () => {
    const json = bodyWith('"n":128,"best_of":null,"max_completion_tokens":1000,')
    expect(await sent(CHAT, json)).toMatchObject({ status: 200, forwarded: [json] })
  })

  it.each(['n', 'max_completion_tokens'])('%s of an upload has the same limit', async (name) => {
    const field = (key: string, value: string): string =>
      `--b\r\ncontent-disposition: form-data; name="${key}"\r\n\r\n${value}\r\n`
    const upload = (value: string): string => `${field('model', MODEL)}${field(name, value)}--b--\r\n`
    const { status, error, forwarded } = await sent('/v1/audio/transcriptions', upload('100000'), FORM)
    expect([status, error!['param'], forwarded]).toEqual([400, name, []])
    const twice = `${field(name, '1')}${upload('100000')}`
    expect((await sent('/v1/audio/transcriptions', twice, FORM)).status).toBe(400)
    expect((await sent('/v1/audio/transcriptions', upload('1'), FORM)).status).toBe(200)
  })

  it.each(DENIED)('%s is refused', async (name) => {
    for (const path of PATHS) {
      await refused(path, bodyWith(`"${name}":"x",`), name, 'limits.denied_fields')
      await refused(path, bodyWith(`"${escapedAll(name)}":null,`), name, 'limits.denied_fields')
    }
    await refused(CHAT, bodyWith(`"extra_body":{"${name}":1},`), `extra_body.${name}`, 'limits.denied_fields')
    const form = `--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n${MODEL}\r\n--b\r\ncontent-disposition: form-data; name="${name}"; filename="x"\r\n\r\n1\r\n--b--\r\n`
    expect((await sent('/v1/audio/transcriptions', form, FORM)).status).toBe(400)
  })

  it('a body of 129 levels is rejected, and one of 128 passes', async () => {
    // The body itself is one level.
    const deep = (open: string, inner: string, close: string, levels: number): string =>
      bodyWith(`"metadata":${open.repeat(levels)}${inner}${close.repeat(levels)},`)
    for (const [open, inner, close] of [
      ['[', '', ']'],
      ['[1,', '1', ']'],
      ['{"a":', '1', '}'],
      ['{"a":1,"a":', '{}', '}'],
    ] as const) {
      const isEmpty = inner === '{}' ? 1 : 0
      await refused(CHAT, deep(open, inner, close, 128), null, 'limits.max_json_depth')
      const json = deep(open, inner, close, 127 - isEmpty)
      expect(await sent(CHAT, json)).toMatchObject({ status: 200, forwarded: [json] })
    }
  })

  it('a body of 50,000 levels is refused', async () => {
    await refused(
      CHAT,
      bodyWith(`"metadata":${'['.repeat(50_000)}${']'.repeat(50_000)},`),
      null,
      'limits.max_json_depth',
    )
  })

  it.each(Object.entries(FOREIGN))('media of a host that is not allowed, %s, are refused', async (_name, content) => {
    for (const path of [CHAT, '/v1/messages', '/v1/responses', '/v1/embeddings', '/tokenize']) {
      const { status, error, forwarded } = await sent(path, withContent(content))
      expect([status, forwarded]).toEqual([400, []])
      expect(error!['message']).toContain('limits.media_hosts')
      expect(error!['message']).not.toMatch(/passwd|a\.png/)
    }
  })

  it.each(Object.entries(ALLOWED))('media that need no host or an allowed one, %s, pass', async (_name, content) => {
    const json = withContent(content)
    expect(await sent(CHAT, json)).toMatchObject({ status: 200, forwarded: [json] })
  })
}
