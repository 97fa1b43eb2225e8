/** Images encoded on one real engine and used by another: vLLM's EC connector through files. */
import { readFileSync } from 'node:fs'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { GatewayKind } from '../gateway.ts'
import { send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { direct, through } from './asks.ts'
import { decisionOf } from './decisions.ts'

/** Line of vLLM's debug log for each file that it loads. */
const LOADED = 'Success load encoder cache for hash'
const SIDE = 56

export function encodeRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-encode`,
    says:
      `Each image of a chat is encoded once on the encode engine (${kind}), and the other engine loads the encoded ` +
      'image instead of encoding it; a known image is not sent again.',
    run: async (lab) => encode(lab, kind),
  }
}

async function encode(lab: Lab, kind: GatewayKind): Promise<string> {
  const [encoder, eye] = [await lab.engine('encode'), await lab.engine('eye')]
  const seed = kind === 'node' ? 10 : 50
  const chats = [[seed], [seed + 1, seed + 2], [seed, seed + 1], [seed]]
  const stages: number[] = []
  const [encodedBefore, loadedBefore] = [await encoder.metric('vllm:request_success_total'), loads(eye)]
  const gateway = await lab.gateway(kind, 'encoded')
  for (const seeds of chats) {
    const answer = await send(await through(lab, kind, chatOf(seeds), { fleet: 'encoded', path: CHATS }))
    const text = answer.body.toString('utf8')
    check(answer.status === 200, `${answer.status}: ${text.slice(0, 200)}`)
    check(answer.headers['x-firstlight-engine'] === 'eye', `answered by ${answer.headers['x-firstlight-engine']}`)
    const chat = JSON.parse(text) as ChatBody
    const alone = JSON.parse((await send(direct(eye, chatOf(seeds), CHATS))).body.toString('utf8')) as ChatBody
    check(chat.usage.prompt_tokens === alone.usage.prompt_tokens, 'the prompt has another length')
    check(chat.choices[0]!.message.content === alone.choices[0]!.message.content, 'the text is another one')
    const { actual } = await decisionOf(gateway, answer.headers['x-firstlight-decision'])
    stages.push(actual?.stages?.['encode'] ?? 0)
  }
  const images = new Set(chats.flat()).size
  await until(async () => loads(eye) - loadedBefore >= images, 'the engine to load the images', {
    limitMs: 3000,
  }).catch(() => 0)
  const [encoded, loaded] = [
    (await encoder.metric('vllm:request_success_total')) - encodedBefore,
    loads(eye) - loadedBefore,
  ]
  check(encoded === images, `${images} images, ${encoded} requests to the encode engine`)
  check(loaded === images, `${images} images, of which the other engine loaded ${loaded}`)
  return `${chats.length} chats with ${images} images: ${encoded} encoded, ${loaded} loaded; stage encode ${stages.map(Math.round).join(', ')} ms`
}

const CHATS = '/v1/chat/completions'

interface ChatBody {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
  readonly usage: { readonly prompt_tokens: number }
}

const loads = ({ process }: RealEngine): number =>
  process === null ? 0 : readFileSync(process.logFile, 'utf8').split(LOADED).length - 1

function chatOf(seeds: readonly number[]): object {
  const images = seeds.map((seed) => ({ type: 'image_url', image_url: { url: bitmap(seed) } }))
  const content = [...images, { type: 'text', text: 'What is this?' }]
  const sampling = { max_tokens: 4, temperature: 0, ignore_eos: true }
  return { model: servedModel, messages: [{ role: 'user', content }], ...sampling }
}

/** A BMP file of 24 bits per pixel as a data URL. Each number gives another image. */
function bitmap(seed: number): string {
  const head = Buffer.alloc(54)
  const pixels = Buffer.from(Array.from({ length: SIDE * SIDE * 3 }, (_, at) => (at * seed + seed) % 256))
  head.write('BM')
  head.writeUInt32LE(head.length + pixels.length, 2)
  head.writeUInt32LE(head.length, 10)
  head.writeUInt32LE(40, 14)
  head.writeInt32LE(SIDE, 18)
  head.writeInt32LE(SIDE, 22)
  head.writeUInt16LE(1, 26)
  head.writeUInt16LE(24, 28)
  return `data:image/bmp;base64,${Buffer.concat([head, pixels]).toString('base64')}`
}
