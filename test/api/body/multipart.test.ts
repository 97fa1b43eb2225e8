import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { partsOf, readForm, replaceFormModel } from '../../../src/api/body/multipart.ts'
import { Failure } from '../../../src/failure.ts'

const latin = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const textOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
const joined = (pieces: readonly Uint8Array[]): string => pieces.map(textOf).join('')

const field = (name: string, value: string, more = ''): string =>
  `--B\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
const sound = field('file', '\xff\xfb\0\r\n--\r\n--b', '; filename="a.mp3"\r\nContent-Type: audio/mpeg')
const whole = (...fields: string[]): string => `${fields.join('')}--B--\r\n`

const read = (text: string, type = 'multipart/form-data; boundary=B', limit = 1 << 20) =>
  readForm(new Request('http://x', { method: 'POST', headers: { 'content-type': type }, body: latin(text) }), {
    bodyBytes: limit,
  })
const refusal = async (text: string, type?: string): Promise<Failure> =>
  read(text, type).then(
    () => expect.fail('it was taken'),
    (error: unknown) => (error instanceof Failure ? error : Promise.reject(error as Error)),
  )

describe('a form', () => {
  it('a form keeps its bytes, and exposes the fields that the gateway uses', async () => {
    const text = whole(field('stream', 'True'), sound, field('user', 'Grüße'), field('model', 'whisper'))
    const { bytes, json, model } = await read(text)
    expect(textOf(bytes)).toBe(text)
    expect(json).toMatchObject({ model: 'whisper', stream: true })
    expect(json['file']).toBeUndefined()
    expect(textOf(bytes.subarray(model!.from, model!.to))).toBe('whisper')
  })

  it.each([
    ['with the boundary in quotes', 'Multipart/Form-Data; Boundary="B"; charset=UTF-8'],
    ['with blanks about the boundary', 'multipart/form-data;  boundary=B '],
  ])('a form is read %s', async (_, type) => {
    expect((await read(whole(field('model', 'm')), type)).json['model']).toBe('m')
  })

  it.each([
    ['before a text behind the last boundary', `${whole(field('model', 'm'))}any more`, 'm'],
    ['before the boundary’s letters elsewhere', whole(field('f', 'x--B\n--B--'), field('model', 'm')), 'm'],
    ['without quotes about its name', whole('--B\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n'), 'm'],
    [
      'with other headers',
      whole(
        '--B\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: FORM-DATA ; Name="model" \r\nContent-Length: 1\r\ncontent-transfer-encoding: binary\r\n\r\nm\r\n',
      ),
      'm',
    ],
    ['of many bytes', whole(field('model', '\xc3\xa9')), 'é'],
    [
      'beside a file named in quotes and backslashes',
      whole(
        field('f', '', '; filename="\\"; name=\\"model\\"; C:\\x\\".mp3"; filename*=utf-8\'\'x'),
        field('model', 'm'),
      ),
      'm',
    ],
    ['beside a field whose name has quotes', whole(field('a\\"; name=\\"model', 'x'), field('model', 'm')), 'm'],
    [
      'beside fields that come twice',
      whole(field('include[]', 'a'), field('include[]', 'b'), field('model', 'm')),
      'm',
    ],
    ['that is empty', whole(field('model', '')), ''],
    ['that is not there', whole(sound), undefined],
  ])('a form gives a model %s', async (_, text, model) => {
    expect((await read(text)).json['model']).toBe(model)
  })

  it.each(['1', 'true', 'TRUE', 't', 'yes', 'on', 'y'])('a form asks for a stream by %s', async (word) => {
    expect((await read(whole(field('stream', word)))).json['stream']).toBe(true)
  })
  it.each(['0', 'false', '', ' true', 'truely'])('a form asks for none by %o', async (word) => {
    expect((await read(whole(field('stream', word)))).json['stream']).toBe(false)
  })

  it('a form reaches an engine under its own name of the model, every other byte as it was', async () => {
    const text = (model: string) => whole(sound, field('model', model), field('prompt', 'qwen'))
    const form = await read(text('qwen'))
    expect(joined(replaceFormModel(form, 'Qwen/Qwen3-ASR'))).toBe(text('Qwen/Qwen3-ASR'))
    expect(replaceFormModel(form, 'qwen')[0]).toBe(form.bytes)
  })

  it('a form is refused above the limit of all bodies', async () => {
    await expect(read(whole(sound), undefined, 60)).rejects.toMatchObject({ reason: 'body_too_large' })
  })
})

const part = (headers: string): string => whole(`--B\r\n${headers}\r\n\r\nm\r\n`)

describe('a form is refused', () => {
  it.each([
    ['application/json', 'unsupported_media', /multipart\/form-data.*application\/json/],
    ['', 'unsupported_media', /multipart\/form-data/],
    ['multipart/mixed; boundary=B', 'unsupported_media', /multipart\/mixed/],
    ['multipart/form-data', 'unsupported_media', /boundary.*HTTP library/],
    ['multipart/form-data; boundary=', 'unsupported_media', /boundary/],
    ['multipart/form-data; boundary=B; boundary=C', 'unsupported_media', /boundary/],
    ["multipart/form-data; boundary=B; boundary*=utf-8''C", 'unsupported_media', /boundary/],
    ['multipart/form-data; boundary="B\\""', 'unsupported_media', /boundary/],
    [`multipart/form-data; boundary=${'B'.repeat(71)}`, 'unsupported_media', /boundary/],
    ['multipart/form-data; boundary=B; charset=utf-7', 'unsupported_media', /content-type/],
    ['multipart/form-data, boundary=B', 'unsupported_media', /multipart/],
  ])('as %s', async (type, reason, message) => {
    const failure = await refusal(whole(field('model', 'm')), type)
    expect(failure.reason).toBe(reason)
    expect(failure.message).toMatch(message)
  })

  it.each([
    ['with two models', whole(field('model', 'a'), field('model', 'b')), /model once/],
    ['with two flags for a stream', whole(field('stream', '1'), field('stream', '0')), /stream once/],
    ['with a model as a file', whole(field('model', 'a', '; filename="m"')), /model once, as UTF-8 text/],
    ['with a model that is no UTF-8', whole(field('model', '\xff')), /UTF-8/],
    ['with a model of no reasonable length', whole(field('model', 'x'.repeat(20_000))), /model/],
    ['without its last boundary', whole(field('model', 'm')).slice(0, -7), /end with its boundary/],
    ['that ends in the middle of it', whole(field('model', 'm')).slice(0, -4), /end with its boundary/],
    ['that is empty', '', /begin/],
    ['that has another boundary', whole(field('model', 'm')).replaceAll('--B', '--C'), /begin/],
    ['that ends before it begins', '--B--\r\n', null],
    ['with its boundary inside a part', whole(field('model', 'm\r\n--Bm')), /boundary/],
    ['with a text before the first part', `any text\r\n${whole(field('model', 'm'))}`, /begin/],
    ['with a part behind the last one', whole(field('model', 'm')) + whole(field('model', 'n')), /boundary/],
    ['with a part hidden before the first one', `x--B\r\n${whole(field('model', 'm'))}`, /boundary/],
    ['with bare line feeds', whole(field('model', 'm')).replaceAll('\r\n', '\n'), /boundary/],
    ['with blanks behind a boundary', whole(field('model', 'm')).replace('--B\r', '--B \r'), /boundary/],
    [
      'with more fields than anything has',
      whole(...Array.from({ length: 129 }, (_, i) => field(`f${i}`, ''))),
      /128 parts/,
    ],
    [
      'with headers without end',
      part(`content-disposition: form-data; name="model"\r\nx: ${'y'.repeat(5_000)}`),
      /headers/,
    ],
    ['with a part without headers', '--B\r\n\r\nm\r\n--B--\r\n', /headers/],
    ['with a part that has no room', '--B\r\n--B--\r\n', /end/],
    ['with a part that is no field', part('content-type: text/plain'), /content-disposition/],
    ['with a part that has no name', part('content-disposition: form-data; filename="model"'), /name/],
    ['with an option it does not know', part('content-disposition: form-data; name="model"; size=1'), /headers/],
    ['with a part that is an attachment', part('content-disposition: attachment; name="model"'), /headers/],
    ['with two names of a part', part('content-disposition: form-data; name="a"; name="model"'), /headers/],
    [
      'with a second name of a part, encoded',
      part('content-disposition: form-data; name="a"; name*=utf-8\'\'model'),
      /headers/,
    ],
    [
      'with two dispositions of a part',
      part('content-disposition: form-data; name="a"\r\ncontent-disposition: form-data; name="model"'),
      /headers/,
    ],
    [
      'with two, of which one cannot be read',
      part('content-disposition: form-data; name="\r\ncontent-disposition: form-data; name="model"'),
      /headers/,
    ],
    ['with a header over two lines', part('content-disposition: form-data;\r\n name="model"'), /headers/],
    ['with a name some take for another', part('content-disposition: form-data; name="mo\\del"'), /headers/],
    ['with a name that does not end', part('content-disposition: form-data; name="model'), /headers/],
    [
      'with an encoded part',
      part('content-disposition: form-data; name="model"\r\ncontent-transfer-encoding: base64'),
      /encoding/,
    ],
    [
      'with a part encoded without a blank',
      part('content-disposition: form-data; name="model"\r\nContent-Transfer-Encoding:quoted-printable'),
      /encoding/,
    ],
  ])('%s', async (_, text, message) => {
    if (message === null) return void expect((await read(text)).json).toEqual({})
    const failure = await refusal(text)
    expect(failure.reason).toBe('bad_body')
    expect(failure.message).toMatch(message)
  })

  it.each([
    ['kv_transfer_params', '1'],
    ['ec_transfer_params', ''],
    ['vllm_xargs', '{"kv_transfer_params":"x"}'],
    ['vllm_xargs', '{"\\u006bv_transfer_params":"x"}'],
    ['vllm_xargs', '{"a\\\\u006b":"x"}'],
  ])('the parser of forms rejects fields that crash engines: %s %s', async (name, value) => {
    expect(await refusal(whole(field(name, value)))).toMatchObject({ reason: 'bad_value', param: name })
  })

  it('not with harmless extra arguments', async () => {
    expect((await read(whole(field('vllm_xargs', '{"kv_transfer":1}'), field('model', 'm')))).json['model']).toBe('m')
  })
})

interface TestUpload {
  readonly boundary: string
  readonly text: string
}

const boundaries = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'-abB0'), minLength: 1, maxLength: 8 }),
  fc.string({ unit: fc.constantFrom(..."-_ABCabc019'()+,./:=?"), minLength: 1, maxLength: 70 }),
)
const contents = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'-abB\r\n\0\xff'), maxLength: 30 }),
  fc.uint8Array({ maxLength: 400 }).map(textOf),
)
const names = fc.constantFrom('model', 'stream', 'file', 'prompt', 'include[]', 'a b', '')
const partsMade = fc.array(
  fc.record({
    name: names,
    content: contents,
    file: fc.option(fc.constantFrom('a.mp3', 'x y.wav', '')),
    type: fc.boolean(),
    small: fc.boolean(),
  }),
  { maxLength: 6 },
)

/** Forms as clients send them, with every variation that RFC 7578 allows. */
const forms: fc.Arbitrary<TestUpload> = fc.tuple(boundaries, partsMade, fc.boolean()).map(([boundary, parts, ends]) => {
  const text = parts.map(({ name, content, file, type, small }) => {
    const disposition = `${small ? 'content-disposition' : 'Content-Disposition'}: form-data; name="${name}"${file === null ? '' : `; filename="${file}"`}`
    return `--${boundary}\r\n${disposition}${type ? '\r\nContent-Type: text/plain' : ''}\r\n\r\n${content.replaceAll(`\r\n--${boundary}`, '')}\r\n`
  })
  return { boundary, text: `${text.join('')}--${boundary}--${ends ? '\r\n' : ''}` }
})

const quoted = (boundary: string): string => `multipart/form-data; boundary="${boundary}"`

async function byPlatform({ boundary, text }: TestUpload): Promise<[string, string][] | null> {
  try {
    const entries = [...(await new Response(latin(text), { headers: { 'content-type': quoted(boundary) } }).formData())]
    return await Promise.all(
      entries.map(async ([name, value]): Promise<[string, string]> => [
        name,
        typeof value === 'string' ? value : `file:${textOf(new Uint8Array(await value.arrayBuffer()))}`,
      ]),
    )
  } catch {
    return null
  }
}

function byUs({ boundary, text }: TestUpload): [string, string][] | null {
  const bytes = latin(text)
  try {
    return partsOf(bytes, boundary).map(({ name, isFile, from, to }) => [
      name,
      isFile
        ? `file:${textOf(bytes.subarray(from, to))}`
        : new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(from, to)),
    ])
  } catch (error) {
    if (error instanceof Failure) return null
    throw error
  }
}

/** Content of each part, found by string search; null: not a form. */
function naively({ boundary, text }: TestUpload): string[] | null {
  const [before, ...pieces] = `\r\n${text}`.split(`\r\n--${boundary}`)
  const between = pieces.slice(0, -1)
  const isForm =
    before === '' && pieces.at(-1)?.startsWith('--') === true && between.every((piece) => piece.startsWith('\r\n'))
  return isForm ? between.map((piece) => piece.slice(piece.indexOf('\r\n\r\n') + 4)) : null
}

describe('the parser of forms', () => {
  it('the parser of forms finds in all forms the same as the platform', async () => {
    let agreed = 0
    await fc.assert(
      fc.asyncProperty(forms, async (made) => {
        const ours = byUs(made)
        const theirs = await byPlatform(made)
        // The platform rejects some boundaries.
        if (theirs === null || ours === null) return
        agreed += 1
        expect(ours).toEqual(theirs)
      }),
      { numRuns: 3_000 },
    )
    expect(agreed).toBeGreaterThan(2_000)
  })

  it('the parser of forms finds the same as a search in a string, and rejects the same', () => {
    fc.assert(
      fc.property(forms, (made) => {
        const bytes = latin(made.text)
        const theirs = naively(made)
        if (byUs(made) === null) expect(theirs).toBeNull()
        else
          expect(partsOf(bytes, made.boundary).map(({ from, to }) => textOf(bytes.subarray(from, to)))).toEqual(theirs)
      }),
      { numRuns: 3_000 },
    )
  })

  it('the parser of forms rejects the same forms as the platform, for any bytes', async () => {
    const change = fc.record({
      at: fc.nat(),
      put: fc.oneof(
        fc.constantFrom(
          '',
          '"',
          '\\',
          ';',
          '\r',
          '\n',
          '\r\n',
          '\r\n\r\n',
          '--',
          ':',
          '=',
          ' ',
          '\0',
          '; name="model"',
          "; name*=utf-8''model",
          '\r\nContent-Disposition: form-data; name="model"',
        ),
        fc.string({ maxLength: 3 }),
      ),
      drop: fc.nat(6),
    })
    let taken = 0
    await fc.assert(
      fc.asyncProperty(forms, fc.array(change, { minLength: 1, maxLength: 4 }), async ({ boundary, text }, changes) => {
        const mutated = changes.reduce(
          (now, { at, put, drop }) =>
            now.slice(0, at % (now.length + 1)) +
            put.replace(/[^\0-\xff]/g, '?') +
            now.slice((at % (now.length + 1)) + drop),
          text,
        )
        const made = { boundary, text: mutated }
        const ours = byUs(made)
        if (ours === null) return
        const theirs = await byPlatform(made)
        if (theirs === null) return
        taken += 1
        const models = (all: [string, string][]) => all.filter(([name]) => name === 'model')
        expect(models(ours)).toEqual(models(theirs))
      }),
      { numRuns: 5_000 },
    )
    expect(taken).toBeGreaterThan(300)
  })

  it.each([
    ['zeros', '\0', 0.26],
    ['CRs', '\r', 0.51],
    ['dashes', '-', 1.1],
    ['empty lines', '\r\n', 0.76],
    ['beginnings of a boundary', `\r\n${'-'.repeat(69)}`, 1.3],
    ['the shortest of them', '\r\n--', 2.1],
  ])('the parser of forms looks at few of the bytes it is to pass, be they %s', (_what, filling, share) => {
    const boundary = '-'.repeat(68)
    const passed = 100_000
    const bytes = latin(
      `--${boundary}\r\ncontent-disposition: form-data; name="file"\r\n\r\nx${filling.repeat(passed / filling.length)}\r\n--${boundary}--`,
    )
    let looks = 0
    const counted = new Proxy(bytes, {
      get(target, key) {
        if (typeof key === 'string' && /^\d+$/.test(key)) looks += 1
        const value: unknown = Reflect.get(target, key, target)
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value
      },
    })
    expect(partsOf(counted, boundary)).toHaveLength(1)
    expect(looks / passed).toBeLessThan(share)
  })
})
