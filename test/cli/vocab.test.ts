import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { IdBuffer } from '../../src/core/tokens/id-buffer.ts'
import { chat } from '../../src/protocols/chat.ts'
import { readArgs } from '../../src/cli/commands/args.ts'
import { UsageError } from '../../src/platform/node/usage-error.ts'
import { vocab } from '../../src/cli/commands/vocab.ts'
import { fileVocabularies } from '../../src/platform/node/vocabulary-files.ts'
import { warmUp } from '../../src/platform/node/warm-up.ts'
import { openVocabularies } from '../../src/vocabulary.ts'

const model = new URL('../vectors/model/', import.meta.url)
const folder = mkdtempSync(join(tmpdir(), 'vocab-'))
afterAll(() => rmSync(folder, { recursive: true }))
const at = (name: string): string => join(folder, name)

async function firstlight(...argv: string[]): Promise<{ code: number; out: string }> {
  const lines: string[] = []
  const never = new AbortController().signal
  const io = {
    out: (line: string) => lines.push(line),
    err: (line: string) => lines.push(line),
    env: {},
    stop: never,
    stopNow: never,
  }
  const code = await vocab.run(readArgs(vocab, argv), {
    ...io,
    out: (line) => void io.out(line),
    err: (line) => void io.err(line),
  })
  return { code, out: lines.join('\n') }
}

const open = async (
  name: string,
): Promise<NonNullable<ReturnType<Awaited<ReturnType<typeof openVocabularies>>['get']>>> => {
  const opened = (await openVocabularies([name], fileVocabularies(folder))).get(name)
  if (opened === undefined) throw new Error(`${name} was not opened`)
  return opened
}

describe('firstlight vocab compile', () => {
  it('firstlight vocab compile makes a file of a model folder that the gateway opens, with the chat template', async () => {
    const { code, out } = await firstlight('compile', model.pathname, '-o', at('tiny.vocab'))
    expect(code).toBe(0)
    expect(out).toContain('qwen2, after NFC')
    expect(out).toContain(`tokenizer: ${at('tiny.vocab')}`)
    const { tokenizer, template } = await open('tiny.vocab')
    const prompt = chat.prompt({ messages: [{ role: 'user', content: 'hello' }] })
    if (prompt.form !== 'chat') throw new Error('not a chat')
    expect(template?.(prompt)).toContain('<|im_start|>user\nhello<|im_end|>')
    const ids = new IdBuffer()
    tokenizer.encode('hello', true, ids)
    expect([...ids.ids.subarray(0, ids.length)]).toEqual([276, 78, 338])
    warmUp([{ tokenizer }])
    ids.clear()
    tokenizer.encode('hello', true, ids)
    expect([...ids.ids.subarray(0, ids.length)]).toEqual([276, 78, 338])
    expect((await firstlight('show', at('tiny.vocab'))).out).toContain('chat template')
  })

  it('firstlight vocab compile prefers chat_template.jinja in the folder, a --template before that, and can leave it out', async () => {
    cpSync(model, at('model'), { recursive: true })
    writeFileSync(at('model/chat_template.jinja'), 'from the folder')
    writeFileSync(at('own.jinja'), 'from the flag')
    const templateAfter = async (...flags: string[]): Promise<string | null> => {
      await firstlight('compile', at('model'), '-o', at('t.vocab'), ...flags)
      return (await open('t.vocab')).header.template
    }
    expect(await templateAfter()).toBe('from the folder')
    expect(await templateAfter('--template', at('own.jinja'))).toBe('from the flag')
    expect(await templateAfter('--no-template')).toBeNull()
  })

  it.each([
    ['config.json', { model_type: 'qwen2' }],
    ['config.json', { model_type: 'qwen3' }],
    ['tokenizer_config.json', { tokenizer_class: 'Qwen2TokenizerFast' }],
  ])(
    'firstlight vocab compile warns where engines replace the splitting of tokenizer.json: %s %j',
    async (name, content) => {
      const json = JSON.parse(readFileSync(new URL('tokenizer.json', model), 'utf8')) as Record<string, unknown>
      json['pre_tokenizer'] = { type: 'ByteLevel', add_prefix_space: false, use_regex: true }
      const src = mkdtempSync(join(folder, 'replaced-'))
      writeFileSync(join(src, 'tokenizer.json'), JSON.stringify(json))
      writeFileSync(join(src, name), JSON.stringify(content))
      const { code, out } = await firstlight('compile', src, '-o', at('replaced.vocab'))
      expect([code, out]).toEqual([
        0,
        expect.stringMatching(/warning: tokenizer\.json splits words as gpt2.*Qwen2Tokenizer.*splits as qwen2/),
      ])
    },
  )

  it.each([{ model_type: 'qwen2' }, { model_type: 'llama' }, {}])(
    'firstlight vocab compile does not warn where they agree: %j',
    async (config) => {
      const src = mkdtempSync(join(folder, 'agrees-'))
      cpSync(model, src, { recursive: true })
      writeFileSync(join(src, 'config.json'), JSON.stringify(config))
      expect((await firstlight('compile', src, '-o', at('agrees.vocab'))).out).not.toContain('warning')
    },
  )

  it('firstlight vocab compile keeps text beyond ASCII in template and tokens', async () => {
    writeFileSync(at('unicode.jinja'), '你好 {{ messages[0].content }} 🎉')
    await firstlight(
      'compile',
      join(model.pathname, 'tokenizer.json'),
      '--template',
      at('unicode.jinja'),
      '-o',
      at('u.vocab'),
    )
    expect((await open('u.vocab')).header.template).toBe('你好 {{ messages[0].content }} 🎉')
  })

  it('firstlight vocab compile refuses what it could not follow, with the file and the reason, and writes nothing', async () => {
    const json = JSON.parse(readFileSync(new URL('tokenizer.json', model), 'utf8')) as {
      model: Record<string, unknown>
    }
    json.model['type'] = 'WordPiece'
    writeFileSync(at('wordpiece.json'), JSON.stringify(json))
    await expect(firstlight('compile', at('wordpiece.json'), '-o', at('no.vocab'))).rejects.toThrow(
      /wordpiece\.json: the model is "WordPiece"/,
    )
    expect(() => readFileSync(at('no.vocab'))).toThrow('ENOENT')
    writeFileSync(at('broken.jinja'), '{% for %}')
    await expect(
      firstlight('compile', model.pathname, '--template', at('broken.jinja'), '-o', at('no.vocab')),
    ).rejects.toThrow('cannot be parsed')
    expect(() => readFileSync(at('no.vocab'))).toThrow('ENOENT')
  })

  it.each([
    [[]],
    [['compile']],
    [['compile', 'a', 'b']],
    [['melt', 'a']],
    [['compile', model.pathname]],
    [['compile', '/nowhere', '-o', 'x']],
    [['show', '/nowhere']],
  ])('firstlight vocab compile says what is missing: %j', async (argv) => {
    await expect(firstlight(...argv)).rejects.toBeInstanceOf(UsageError)
  })
})

describe('loading at the start', () => {
  it('the start stops at a vocabulary that is missing, and says how to make it', async () => {
    await expect(openVocabularies(['none.vocab'], fileVocabularies(folder))).rejects.toThrow(
      /vocabulary 'none\.vocab': cannot be read \(ENOENT\): make it with `firstlight vocab compile/,
    )
  })

  it('the start stops at a file that is no vocabulary, or only half of one', async () => {
    writeFileSync(at('text.vocab'), 'hello there, this is text')
    await expect(openVocabularies(['text.vocab'], fileVocabularies(folder))).rejects.toThrow(
      "vocabulary 'text.vocab': not a compiled vocabulary",
    )
    await firstlight('compile', model.pathname, '-o', at('half.vocab'))
    writeFileSync(at('half.vocab'), readFileSync(at('half.vocab')).subarray(0, 2000))
    await expect(openVocabularies(['half.vocab'], fileVocabularies(folder))).rejects.toThrow('truncated or damaged')
  })

  it('the start reads each named vocabulary once', async () => {
    await firstlight('compile', model.pathname, '-o', at('once.vocab'))
    let reads = 0
    const source = fileVocabularies(folder)
    const opened = await openVocabularies(['once.vocab', 'once.vocab'], (name) => {
      reads++
      return source(name)
    })
    expect([reads, opened.size]).toEqual([1, 1])
  })
})
