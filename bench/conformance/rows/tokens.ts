/** Token ids and chat templates of a real engine over difficult text. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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
      for (const chat of fuzzedChats()) {
        const ids = await idsOf(url, chat)
        chats.push({ chat, ids, text: await textOf(url, ids) })
      }
      for (const { text, ids } of texts) {
        const back = await textOf(url, ids)
        check(back === text.normalize('NFC'), `${JSON.stringify(text)} came back as ${JSON.stringify(back)}`)
      }
      const written = lab.writeVector('tokens.json', writeLists({ about, texts, chats }))
      return `${texts.length} texts and ${chats.length} chats, ${texts.reduce((sum, { ids }) => sum + ids.length, 0)} and ${chats.reduce((sum, { ids }) => sum + ids.length, 0)} tokens, ${written}; tokenizer ${keepTokenizer(lab)}`
    },
  },
]

async function idsOf(url: string, body: object): Promise<number[]> {
  const answer = await sendJson<{ tokens: number[] }>({ url, method: 'POST', path: '/tokenize', body: { model: servedModel, ...body } })
  return answer.tokens
}

async function textOf(url: string, tokens: readonly number[]): Promise<string> {
  return (await sendJson<{ prompt: string }>({ url, method: 'POST', path: '/detokenize', body: { model: servedModel, tokens } })).prompt
}

function fuzzedTexts(): string[] {
  const random = generator(20)
  return ['hello', 'Hello, wörld 👋', ' leading', 'trailing ', ...Array.from({ length: 116 }, () => fuzzText(random, 24))]
}

const user = (content: unknown) => ({ role: 'user', content })
const call = (args: object) => ({ id: 'call-1', type: 'function', function: { name: 'get_weather', arguments: JSON.stringify(args) } })

function fuzzedChats(): ChatVector['chat'][] {
  const random = generator(21)
  const text = () => fuzzText(random, 10)
  const fixed = [
    { messages: [user('hello')] },
    { messages: [user('hello')], add_generation_prompt: false },
    { messages: [{ role: 'system', content: '' }, user('x')] },
    { messages: [user([{ type: 'text', text: 'two' }, { type: 'text', text: 'parts' }])] },
    { messages: [user('a'), { role: 'assistant', content: 'b' }], add_generation_prompt: false, continue_final_message: true },
    { messages: [user('weather?')], tools: [weatherTool] },
    { messages: [user('w'), { role: 'assistant', content: null, tool_calls: [call({ unit: 'ü', deep: { b: [1, 2.5, null, true] } }), call({})] }, { role: 'tool', tool_call_id: 'call-1', content: '21°' }, { role: 'tool', tool_call_id: 'call-1', content: [{ type: 'text', text: '<22>' }] }], tools: [weatherTool] },
    { messages: [{ role: 'developer', content: 'Be brief.', name: 'dev' }, user('x')] },
  ]
  const random20 = Array.from({ length: 20 }, () => {
    const turns = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: text() }))
    return { messages: random() < 0.5 ? [{ role: 'system', content: text() }, ...turns] : turns }
  })
  return [...fixed, ...random20]
}

/** The model's own tokenizer and template, so that the tests can have a try without an engine. */
function keepTokenizer(lab: Lab): string {
  const model = join(lab.environment.folder, 'models/tiny')
  return ['tokenizer.json', 'tokenizer_config.json'].map((file) => lab.writeVector(`model/${file}`, readFileSync(join(model, file), 'utf8'))).join(' ')
}
