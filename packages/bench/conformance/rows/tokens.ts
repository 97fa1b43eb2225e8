/** Token ids and chat templates of a real engine over difficult text. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonObject } from '../../../../src/core/json.ts'
import { chat } from '../../../../src/protocols/chat.ts'
import type { Protocol } from '../../../../src/protocols/protocol.ts'
import { tokenize } from '../../../../src/protocols/tokenize.ts'
import { compileVocabulary } from '../../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../../src/core/tokens/tokenizer-config.ts'
import { PromptAnalyzer } from '../../../../src/core/tokens/prompt-analyzer.ts'
import { openVocabulary } from '../../../../src/vocabulary.ts'
import { servedModel } from '../engine.ts'
import { fuzzText, generator } from '../fuzz.ts'
import { sendJson } from '../http.ts'
import { weatherTool } from '../requests.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { writeLists } from '../vector.ts'

interface TextVector {
  readonly text: string
  readonly ids: readonly number[]
}

interface ChatVector {
  /** The body of POST /tokenize, without the model. */
  readonly chat: { readonly messages: readonly unknown[] } & Readonly<Record<string, unknown>>
  readonly ids: readonly number[]
  /** The ids as text: the rendered template after the tokenizer's normalisation. */
  readonly text: string
}

const about = "What vLLM's /tokenize and /detokenize say about the model in test/vectors/model."

export const tokenRows: readonly Row[] = [
  {
    name: 'record-tokens',
    says: 'The engine tokenizes any Unicode text, and its ids give the (composed) text back.',
    run: async (lab) => {
      const { url } = await lab.engine('a')
      const texts: TextVector[] = []
      const chats: ChatVector[] = []
      for (const text of fuzzedTexts()) texts.push({ text, ids: await idsOf(url, { prompt: text }) })
      for (const body of fuzzedChats()) {
        const ids = await idsOf(url, body)
        chats.push({ chat: body, ids, text: await textOf(url, ids) })
      }
      for (const { text, ids } of texts) {
        const back = await textOf(url, ids)
        check(back === text.normalize('NFC'), `${JSON.stringify(text)} came back as ${JSON.stringify(back)}`)
      }
      const written = lab.writeVector('tokens.json', writeLists({ about, texts, chats }))
      return (
        `${texts.length} texts and ${chats.length} chats, ${texts.reduce((sum, { ids }) => sum + ids.length, 0)} and ` +
        `${chats.reduce((sum, { ids }) => sum + ids.length, 0)} tokens, ${written}; tokenizer ${keepTokenizer(lab)}`
      )
    },
  },
  {
    name: 'tokens-same-ids',
    says: `The gateway's token ids and chat template equal the engine's for new random text.`,
    run: async (lab) => {
      const { url } = await lab.engine('a')
      const analyzer = await ownAnalyzer(lab)
      const seed = Math.floor(Date.now() / 1000)
      const random = generator(seed)
      const unlike: string[] = []
      const compare = async ({ prompt }: Protocol, body: JsonObject) => {
        const measured = analyzer.measure({
          prompt: prompt(body),
          bodyBytes: 0,
          adapter: null,
          salts: [],
          tenant: null,
          withIds: true,
        })
        const theirs = await idsOf(url, body)
        const ours = measured.ids === null ? null : [...measured.ids]
        if (ours?.join() !== theirs.join())
          unlike.push(`${JSON.stringify(body).slice(0, 200)}: ${ours === null ? measured.inexact : 'other ids'}`)
      }
      for (let count = 0; count < 300; count++) await compare(tokenize, { prompt: fuzzText(random, 30) })
      for (let count = 0; count < 100; count++) await compare(chat, { messages: fuzzedTurns(random) })
      check(unlike.length === 0, `${unlike.length} of 400 differ (seed ${seed}), e.g. ${unlike[0]}`)
      return `300 texts and 100 chats, seed ${seed}`
    },
  },
]

/** The gateway's own code from a request to ids, with the vocabulary compiled from the model's files. */
async function ownAnalyzer(lab: Lab): Promise<PromptAnalyzer> {
  const file = (name: string): unknown =>
    JSON.parse(readFileSync(join(lab.environment.folder, 'models/tiny', name), 'utf8'))
  const vocabulary = await openVocabulary(
    compileVocabulary({ tokenizer: file('tokenizer.json'), ...readTokenizerConfig(file('tokenizer_config.json')) }),
  )
  const encoder = new TextEncoder()
  const encodeUtf8 = (text: string, into: Uint8Array) => encoder.encodeInto(text, into).written
  return new PromptAnalyzer({
    model: servedModel,
    blockTokens: 32,
    encodeUtf8,
    now: () => 0,
    tokenizer: vocabulary.tokenizer,
    template: vocabulary.template,
  })
}

async function idsOf(url: string, body: object): Promise<number[]> {
  const answer = await sendJson<{ tokens: number[] }>({
    url,
    method: 'POST',
    path: '/tokenize',
    body: { model: servedModel, ...body },
  })
  return answer.tokens
}

async function textOf(url: string, tokens: readonly number[]): Promise<string> {
  return (
    await sendJson<{ prompt: string }>({
      url,
      method: 'POST',
      path: '/detokenize',
      body: { model: servedModel, tokens },
    })
  ).prompt
}

function fuzzedTexts(): string[] {
  const random = generator(20)
  return [
    'hello',
    'Hello, wörld 👋',
    ' leading',
    'trailing ',
    ...Array.from({ length: 116 }, () => fuzzText(random, 24)),
  ]
}

const user = (content: unknown) => ({ role: 'user', content })
const call = (args: object) => ({
  id: 'call-1',
  type: 'function',
  function: { name: 'get_weather', arguments: JSON.stringify(args) },
})

function fuzzedChats(): ChatVector['chat'][] {
  const random = generator(21)
  const fixed = [
    { messages: [user('hello')] },
    { messages: [user('hello')], add_generation_prompt: false },
    { messages: [{ role: 'system', content: '' }, user('x')] },
    {
      messages: [
        user([
          { type: 'text', text: 'two' },
          { type: 'text', text: 'parts' },
        ]),
      ],
    },
    {
      messages: [user('a'), { role: 'assistant', content: 'b' }],
      add_generation_prompt: false,
      continue_final_message: true,
    },
    { messages: [user('weather?')], tools: [weatherTool] },
    {
      messages: [
        user('w'),
        {
          role: 'assistant',
          content: null,
          tool_calls: [call({ unit: 'ü', deep: { b: [1, 2.5, null, true] } }), call({})],
        },
        { role: 'tool', tool_call_id: 'call-1', content: '21°' },
        { role: 'tool', tool_call_id: 'call-1', content: [{ type: 'text', text: '<22>' }] },
      ],
      tools: [weatherTool],
    },
    { messages: [{ role: 'developer', content: 'Be brief.', name: 'dev' }, user('x')] },
  ]
  return [...fixed, ...Array.from({ length: 20 }, () => ({ messages: fuzzedTurns(random) }))]
}

function fuzzedTurns(random: () => number): { role: string; content: string }[] {
  const text = () => fuzzText(random, 10)
  const turns = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: text(),
  }))
  return random() < 0.5 ? [{ role: 'system', content: text() }, ...turns] : turns
}

/** Stores the model's tokenizer and template for tests without an engine. */
function keepTokenizer(lab: Lab): string {
  const model = join(lab.environment.folder, 'models/tiny')
  return ['tokenizer.json', 'tokenizer_config.json']
    .map((file) => lab.writeVector(`model/${file}`, readFileSync(join(model, file), 'utf8')))
    .join(' ')
}
