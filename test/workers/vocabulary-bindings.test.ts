import { describe, expect, it } from 'vitest'
import { compileVocabulary } from '../../src/core/tokens/compile-vocabulary.ts'
import { IdBuffer } from '../../src/core/tokens/id-buffer.ts'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { vocabularySource } from '../../src/platform/workers/vocabulary-bindings.ts'
import { openVocabularies, openVocabulary } from '../../src/vocabulary.ts'
import { characterJson, recorded } from '../core/tokens/characters.ts'

/** All bytes, and the merges that make `hello`. */
function smallTokenizer(): unknown {
  let shifted = 0x100
  const names = Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    return String.fromCharCode(printable ? byte : shifted++)
  })
  const merged = ['he', 'll', 'hell', 'hello']
  const merges = [
    ['h', 'e'],
    ['l', 'l'],
    ['he', 'll'],
    ['hell', 'o'],
  ]
  const vocab = Object.fromEntries([...names, ...merged].map((name, id) => [name, id]))
  return {
    added_tokens: [{ id: 260, content: '<|end|>' }],
    normalizer: { type: 'NFC' },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    model: { type: 'BPE', vocab, merges },
  }
}

const compiled = compileVocabulary({ tokenizer: smallTokenizer(), template: '{{ messages[0].content }}', specials: {} })
const gzip = async (bytes: Uint8Array): Promise<Uint8Array> =>
  new Uint8Array(
    await new Response(
      new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new CompressionStream('gzip')),
    ).arrayBuffer(),
  )

describe('a vocabulary on Workers', () => {
  it('a vocabulary on Workers opens gzipped, and gives the same ids as on Node', async () => {
    const file = await gzip(compiled)
    const opened = (await openVocabularies(['tiny.vocab'], async () => file)).get('tiny.vocab')
    const out = new IdBuffer()
    opened?.tokenizer.encode('hello, hello<|end|>\u0085e\u0301', true, out)
    // NFC makes one letter of e and its accent; U+0085 is white space, so it stands alone.
    expect([...out.ids.subarray(0, out.length)]).toEqual([259, 0x2c, 0x20, 259, 260, 0xc2, 0x85, 0xc3, 0xa9])
    expect(
      opened?.template?.({
        form: 'chat',
        messages: [{ role: 'user', parts: ['hi'], extra: {} }],
        tools: null,
        variables: {},
        ownTemplate: false,
        addSpecial: false,
        items: 0,
      }),
    ).toBe('hi')
  })

  it.each(['gemma', 'llama2', 't5', 'xlmr'])(
    'a vocabulary on Workers of characters, like that of %s, gives the recorded ids',
    async (name) => {
      const file = compileVocabulary({ tokenizer: characterJson(name), template: null, specials: {} })
      const { tokenizer } = await openVocabulary(file)
      const out = new IdBuffer()
      for (const [i, text] of recorded.texts.entries()) {
        out.clear()
        tokenizer.encode(text, true, out)
        expect([text, [...out.ids.subarray(0, out.length)]]).toEqual([text, recorded.families[name]?.ids[i]])
      }
    },
  )

  it('a vocabulary on Workers is loaded from static assets by its name, and stops the start if it is missing', async () => {
    const source = vocabularySource({
      ASSETS: {
        fetch: async (url: RequestInfo | URL) =>
          String(url).endsWith('/a%20b.vocab')
            ? new Response(compiled as Uint8Array<ArrayBuffer>)
            : new Response(null, { status: 404 }),
      } as unknown as Fetcher,
    })
    expect((await openVocabularies(['a b.vocab'], source)).size).toBe(1)
    await expect(openVocabularies(['c.vocab'], source)).rejects.toThrow(
      "vocabulary 'c.vocab': is not there: put the file into the assets directory",
    )
  })

  it('a vocabulary on Workers is searched in KV, then R2, then assets', async () => {
    const bound = (label: string) =>
      ({
        get: async () => Promise.reject(new Error(label)),
        fetch: async () => Promise.reject(new Error(label)),
      }) as never
    const all = { VOCABULARIES: bound('kv'), VOCABULARY_BUCKET: bound('r2'), ASSETS: bound('assets') }
    await expect(vocabularySource(all)('x')).rejects.toThrow('kv')
    await expect(vocabularySource({ ...all, VOCABULARIES: undefined as never })('x')).rejects.toThrow('r2')
    await expect(vocabularySource({ ASSETS: all.ASSETS })('x')).rejects.toThrow('assets')
    expect(() => vocabularySource({})).toThrow('VOCABULARIES')
  })

  it('a vocabulary on Workers that is missing stops a start, and keeps a running gateway unchanged', async () => {
    let text = JSON.stringify(documentWith('missing.vocab'))
    let now = 0
    const kv = { get: async () => text } as unknown as KVNamespace
    const files = {
      get: async (name: string) => (name === 'there.vocab' ? compiled.buffer : null),
    } as unknown as KVNamespace
    const later: Promise<unknown>[] = []
    const ctx = { waitUntil: (work: Promise<unknown>) => void later.push(work) } as unknown as ExecutionContext
    const live = new IsolateGateway(new ConfigSource(() => now))
    const models = async (): Promise<number> => {
      const { status } = await live.fetch(
        new Request('https://gateway.test/v1/models'),
        { CONFIG: kv, VOCABULARIES: files, CLUSTER: {} } as never,
        ctx,
      )
      await Promise.all(later.splice(0))
      now += 60_000
      return status
    }
    expect(await models()).toBe(503)
    text = JSON.stringify(documentWith('there.vocab'))
    await models()
    expect(await models()).toBe(200)
    text = JSON.stringify(documentWith('missing.vocab'))
    await models()
    expect(await models()).toBe(200)
  })
})

const documentWith = (tokenizer: string): object => ({
  version: 1,
  open: true,
  log: { level: 'silent' },
  clusters: [{ id: 'c', pools: [{ model: 'm', tokenizer, engines: [{ id: 'e', url: 'http://127.0.0.1:9' }] }] }],
})
