/** A real vLLM behind a real Envoy and the endpoint picker: texts and usage are those of the engine. */
import { type EnvoyMode, findEnvoy } from '../../epp/envoy.ts'
import { freePort } from '../../epp/site.ts'
import { engineKey, type RealEngine, servedModel } from '../engine.ts'
import { open, send } from '../http.ts'
import { check, type Lab, type Row } from '../row.ts'
import { inCache, missingIn, serveAlone, type StandaloneGateway, using } from '../standalone.ts'
import { throughEnvoy } from '../through-envoy.ts'
import { until } from '../until.ts'
import { dataOf } from '../vector.ts'
import { direct, endless } from './asks.ts'

const ADMIN = 'admin-key-of-the-row'
const MODES = ['full_duplex', 'heads'] as const satisfies readonly EnvoyMode[]

/** Each is sent to the engine and through Envoy, as a stream and not. */
const PROMPTS = ['hello', 'Wie heißt du? 你好 👋🏽', 'one two three '.repeat(120)]

interface Ask {
  readonly path: '/v1/chat/completions' | '/v1/completions'
  readonly body: object
}

interface ModelAnswer {
  readonly text: string
  readonly end: string
  /** Prompt and output tokens; null: the client gets none. */
  readonly usage: readonly [number, number] | null
}

interface Site {
  readonly engine: RealEngine
  readonly gateway: StandaloneGateway
  readonly pickerPort: number
}

const asks = (): readonly Ask[] =>
  PROMPTS.flatMap((prompt) =>
    [{}, { stream: true }, { stream: true, stream_options: { include_usage: true } }].flatMap((more): Ask[] => {
      const fields = { model: servedModel, max_tokens: 12, temperature: 0, ignore_eos: true, ...more }
      return [
        { path: '/v1/chat/completions', body: { ...fields, messages: [{ role: 'user', content: prompt }] } },
        { path: '/v1/completions', body: { ...fields, prompt } },
      ]
    }),
  )

interface Event {
  readonly choices?: readonly {
    readonly text?: string
    readonly delta?: { readonly content?: string }
    readonly message?: { readonly content?: string }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null
}

function read(received: string): ModelAnswer {
  const events = (received.startsWith('{') ? [JSON.parse(received)] : dataOf(received)) as readonly Event[]
  const choices = events.flatMap((event) => event.choices ?? [])
  const usage = events.findLast((event) => event.usage != null)?.usage
  return {
    text: choices.map(({ text, delta, message }) => text ?? delta?.content ?? message?.content ?? '').join(''),
    end: choices.findLast(({ finish_reason }) => finish_reason != null)?.finish_reason ?? 'none',
    usage: usage == null ? null : [usage.prompt_tokens, usage.completion_tokens],
  }
}

async function answerOf(request: Parameters<typeof send>[0]): Promise<ModelAnswer> {
  const { status, body } = await send(request)
  check(status === 200, `${request.path}: ${status} ${body.toString().slice(0, 300)}`)
  return read(body.toString())
}

async function compare({ engine }: Site, url: string): Promise<number> {
  for (const { path, body } of asks()) {
    const expected = await answerOf(direct(engine, body, path))
    const seen = await answerOf({ url, method: 'POST', path, body, limitMs: 90_000 })
    check(expected.text !== '', `${path}: the engine sent no text`)
    check(
      JSON.stringify(seen) === JSON.stringify(expected),
      `${path} ${JSON.stringify(body).slice(0, 120)}: ${JSON.stringify(seen)}, not ${JSON.stringify(expected)}`,
    )
  }
  return asks().length
}

interface PoolView {
  readonly bookings: number
  readonly engines: readonly { readonly healthy: boolean }[]
}

async function poolOf({ url }: StandaloneGateway): Promise<PoolView> {
  const headers = { authorization: `Bearer ${ADMIN}` }
  const { body } = await send({ url, method: 'GET', path: '/v1/firstlight/fleet', headers })
  return (JSON.parse(body.toString()) as { readonly pools: readonly PoolView[] }).pools[0]!
}

const bookingsOf = async ({ gateway }: Site): Promise<number> => (await poolOf(gateway)).bookings

/** A client reads the first bytes of an endless stream and leaves. Resolves when the engine and the picker are idle. */
async function leave(site: Site, url: string): Promise<void> {
  const body = { ...endless, stream: true }
  const { sent, response } = await open({ url, method: 'POST', path: '/v1/completions', body, limitMs: 90_000 })
  response.on('error', () => undefined)
  await new Promise((resolve) => response.once('data', resolve))
  // Without response bodies, bookings of earlier requests end a moment after their clients have the last byte.
  await until(async () => (await bookingsOf(site)) === 1, 'the running stream to have the only booking')
  sent.destroy()
  await until(async () => (await bookingsOf(site)) === 0, 'the booking of a client that left to end')
  await until(
    async () => (await site.engine.metric('vllm:num_requests_running')) === 0,
    'the engine to end the request of a client that left',
  )
}

async function behindPicker(site: Site): Promise<string> {
  const { version } = findEnvoy(inCache('envoy', 'bin', 'envoy'))
  let compared = 0
  for (const mode of MODES)
    await throughEnvoy(site.pickerPort, mode, async (url) => {
      compared += await compare(site, url)
      await leave(site, url)
    })
  await until(async () => (await bookingsOf(site)) === 0, 'the bookings to end')
  return `Envoy ${version}: ${compared} greedy answers in ${MODES.length} modes have the engine's text, end and usage; streams of clients that left ended; no booking left`
}

async function run(lab: Lab): Promise<string> {
  const missing = missingIn('envoy', ['bin/envoy'], 'install-envoy.sh')
  check(missing === null, missing ?? '')
  const engine = await lab.engine('a')
  const pickerPort = await freePort()
  const document = {
    admin: { secret: ADMIN },
    open: true,
    epp: { listen: `127.0.0.1:${pickerPort}`, tls: 'off' },
    clusters: [{ id: 'lab', pools: [{ model: servedModel, engines: [{ id: 'a', url: engine.url, key: engineKey }] }] }],
  }
  return using(await serveAlone(lab, 'epp-vllm', document), async (gateway) => {
    await until(async () => (await poolOf(gateway)).engines[0]!.healthy, 'the picker to find the engine healthy')
    return behindPicker({ engine, gateway, pickerPort })
  })
}

export const eppVllmRow: Row = {
  name: 'epp-vllm',
  says:
    'Behind a real Envoy and the endpoint picker, greedy answers of a real vLLM have its text, end and usage, and a ' +
    'client that leaves ends its request.',
  run,
}
