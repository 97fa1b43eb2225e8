/** Every endpoint that supports a split, with real engines. */
import { servedModel } from '../engine.ts'
import type { GatewayKind } from '../gateway.ts'
import { send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { direct, through } from './asks.ts'
import { moved } from './disaggregation.ts'

export function splitEndpointRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-split-endpoints`,
    says:
      `Chats, responses and messages, in one piece and streamed, are split by the gateway (${kind}) and return ` +
      'the text of a single engine; the prefill engine computes their prompts.',
    run: async (lab) => everywhere(lab, kind),
  }
}

type Json = Readonly<Record<string, unknown>>

interface Endpoint {
  readonly path: string
  body(words: string): Json
}

const user = (words: string): readonly Json[] => [{ role: 'user', content: words }]
const endpoints: readonly Endpoint[] = [
  { path: '/v1/chat/completions', body: (words) => ({ messages: user(words), max_tokens: 8 }) },
  { path: '/v1/responses', body: (words) => ({ input: words, max_output_tokens: 8 }) },
  { path: '/v1/messages', body: (words) => ({ messages: user(words), max_tokens: 8 }) },
]

async function everywhere(lab: Lab, kind: GatewayKind): Promise<string> {
  const [prefill, decode] = await Promise.all([lab.engine('prefill'), lab.engine('decode')])
  const results: string[] = []
  let round = kind === 'node' ? 0 : 100
  for (const { path, body } of endpoints) {
    for (const stream of [false, true]) {
      const ask = {
        model: servedModel,
        temperature: 0,
        ...body(`${++round} the fox and the hen by the sea `.repeat(12)),
      }
      const before = await moved(decode)
      const answer = await send(await through(lab, kind, { ...ask, stream }, { path, fleet: 'split' }))
      const text = answer.body.toString('utf8')
      check(
        answer.status === 200 && answer.headers['x-firstlight-prefill'] !== undefined,
        `${path}: ${answer.status} ${text.slice(0, 200)}`,
      )
      const whole = await send(direct(prefill, { ...ask, cache_salt: 'whole' }, path))
      const [output, expected] = [
        stream ? outputInStream(text) : outputIn(JSON.parse(text) as Json),
        outputIn(JSON.parse(whole.body.toString('utf8')) as Json),
      ]
      check(output === expected, `${path}: ${JSON.stringify(output)}, not ${JSON.stringify(expected)}`)
      await until(async () => (await moved(decode)) > before, 'the decode engine to count')
      const count = (await moved(decode)) - before
      check(count > 100, `${path}: ${count} tokens came from the prefill engine`)
      results.push(`${path}${stream ? ' streamed' : ''} ${count} tokens`)
    }
  }
  return `equal texts, transferred: ${results.join(', ')}`
}

/** Text of a response in one piece, from any of the three APIs. */
function outputIn({ choices, output, content }: Json): string {
  if (Array.isArray(choices)) return (choices as { message: { content: string | null } }[])[0]!.message.content ?? ''
  const blocks = Array.isArray(output)
    ? (output as { content?: { text?: string }[] }[]).flatMap((item) => item.content ?? [])
    : (content as { text?: string }[])
  return blocks.map(({ text = '' }) => text).join('')
}

function outputInStream(text: string): string {
  const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(
    ([, json]) => JSON.parse(json!) as { type?: string; delta?: unknown; choices?: { delta: { content?: string } }[] },
  )
  return events
    .map(({ type, delta, choices }) => {
      if (choices !== undefined) return choices[0]?.delta.content ?? ''
      if (type === 'response.output_text.delta') return String(delta)
      return type === 'content_block_delta' ? ((delta as { text?: string }).text ?? '') : ''
    })
    .join('')
}
