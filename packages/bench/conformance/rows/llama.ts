/** llama.cpp's server, built for the CPU with random weights, behind the gateway. */
import { readFileSync } from 'node:fs'
import { freePorts, open, send } from '../http.ts'
import { check, type Lab, type Row } from '../row.ts'
import { answers, inCache, missingIn, serveAlone, using, type StandaloneGateway } from '../standalone.ts'
import { until } from '../until.ts'

const SLOTS = 2

interface World {
  readonly engine: string
  readonly gateway: StandaloneGateway
  stop(): Promise<void>
}

async function openWorld({ processes }: Lab): Promise<World> {
  const [port] = await freePorts(1)
  const command = [inCache('llama', 'llama-server'), '-m', 'tiny.gguf', '--alias', 'tiny', '--metrics']
  const settings = ['--host', '127.0.0.1', '--port', String(port), '--parallel', String(SLOTS), '-t', '1', '-c', '4096']
  const running = processes.start({
    what: 'llama-server',
    command: [...command, ...settings, '--no-webui'],
    folder: inCache('llama'),
  })
  const engine = `http://127.0.0.1:${port}`
  await answers(engine, '/health', running)
  const engines = [{ id: 'llama', url: engine }]
  const pool = { model: 'tiny', aliases: ['small'], stats_interval_ms: 200, engines }
  const gateway = await serveAlone({ processes }, 'llama', { clusters: [{ id: 'lab', pools: [pool] }] })
  const stop = async () => {
    await gateway.stop()
    await running.stop()
  }
  return { engine, gateway, stop }
}

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'Good morning' }]
const requests = [
  ['/v1/completions', { model: 'tiny', prompt: 'hello world', max_tokens: 8, temperature: 0 }],
  ['/v1/completions', { model: 'tiny', prompt: 'hello world', max_tokens: 8, temperature: 0, stream: true }],
  [CHAT, { model: 'tiny', messages, max_tokens: 8, temperature: 0 }],
  [CHAT, { model: 'tiny', messages, max_tokens: 8, temperature: 0, stream: true }],
  [CHAT, { model: 'tiny', messages: 'no list' }],
  ['/v1/completions', { model: 'tiny', prompt: 'x '.repeat(9000), max_tokens: 1 }],
] as const

/** Texts of a whole answer, or of the events of a stream; an error's message. */
function wordsOf(body: string): string {
  const parts = [...body.matchAll(/"(?:text|content|message)":"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text)
  return `${parts.join('')}${body.includes('data: [DONE]') ? ' [DONE]' : ''}`
}

async function sameAnswers({ engine, gateway }: World): Promise<string> {
  const seen: string[] = []
  for (const [path, body] of requests) {
    const direct = await send({ url: engine, method: 'POST', path, body })
    const through = await gateway.post(path, body)
    const [a, b] = [direct, through].map((answer) => `${answer.status} ${wordsOf(answer.body.toString())}`)
    check(a === b, `${path}: ${b}, without the gateway ${a}`)
    seen.push(String(through.status))
  }
  const alias = await gateway.post(CHAT, { model: 'small', messages, max_tokens: 1 })
  check(alias.status === 200, `alias: ${alias.status}`)
  return `statuses ${seen.join(' ')}, equal texts; alias 200`
}

const LONG = { model: 'tiny', prompt: 'once upon a time', max_tokens: 1500, stream: true, ignore_eos: true }

async function load({ gateway }: World): Promise<string> {
  const gauge = (name: string) => gateway.metric(`firstlight_engine_reported_num_requests_${name}`, 'engine="llama"')
  const streams = await Promise.all(
    Array.from({ length: SLOTS + 2 }, () =>
      // llama.cpp sends the head of a stream with its first token, so deferred requests have none yet.
      Promise.race([
        open({ url: gateway.url, method: 'POST', path: '/v1/completions', body: LONG }),
        new Promise<null>((resolve) => setTimeout(resolve, 1000, null)),
      ]),
    ),
  )
  let max = { running: 0, waiting: 0 }
  await until(async () => {
    const [running, waiting] = [(await gauge('running')) ?? 0, (await gauge('waiting')) ?? 0]
    max = { running: Math.max(max.running, running), waiting: Math.max(max.waiting, waiting) }
    return max.running > 0
  }, 'a running request')
  for (const stream of streams) stream?.sent.destroy()
  check(max.running > 0, `running ${max.running}`)
  await until(async () => (await gauge('running')) === 0, 'no running request')
  return `reported while busy: ${max.running} running, ${max.waiting} waiting; 0 afterwards`
}

async function abort({ engine, gateway }: World): Promise<string> {
  const busy = async () => {
    const { body } = await send({ url: engine, method: 'GET', path: '/metrics' })
    return Number(/^llamacpp:requests_processing (\d+)/m.exec(body.toString())?.[1])
  }
  await until(async () => (await busy()) === 0, 'an idle server')
  const { sent, response } = await open({ url: gateway.url, method: 'POST', path: '/v1/completions', body: LONG })
  await new Promise((resolve) => response.once('data', resolve))
  const before = await busy()
  sent.destroy()
  const left = performance.now()
  await until(async () => (await busy()) === 0, 'a free slot', { limitMs: 5_000, everyMs: 5 })
  check(before === 1, `processing ${before} before the disconnect`)
  return `idle ${Math.round(performance.now() - left)} ms after the disconnect`
}

async function doctor({ engine }: World, { processes }: Lab): Promise<string> {
  const report = inCache('llama-doctor.json')
  const command = [process.execPath, 'bin/firstlight.mjs', 'doctor', engine, '--idle-s', '0', '--json', report]
  await processes.finish({ what: 'doctor of llama.cpp', command, folder: process.cwd(), limitS: 60 })
  const { subjects } = JSON.parse(readFileSync(report, 'utf8')) as {
    subjects: { is: string; findings: { check: string; mark: string; message: string }[] }[]
  }
  const [{ is, findings }] = subjects as [(typeof subjects)[number]]
  const found = (name: string) => findings.find(({ check: one }) => one === name)
  check(is === 'llama.cpp', `recognised as ${is}`)
  check(found('metrics')?.mark === 'ok', `metrics: ${found('metrics')?.message}`)
  check(found('cached_tokens')?.mark === 'ok', `cached_tokens: ${found('cached_tokens')?.message}`)
  return `${is}; ${found('metrics')?.message}; cached tokens ${found('cached_tokens')?.message}`
}

const row = (name: string, says: string, run: (world: World, lab: Lab) => Promise<string>): Row => ({
  name,
  says,
  missing: () => missingIn('llama', ['llama-server', 'tiny.gguf'], 'build-llama.sh'),
  run: async (lab) => using(await openWorld(lab), (world) => run(world, lab)),
})

export const llamaRows: readonly Row[] = [
  row(
    'llama-answers',
    'llama.cpp: completions and chats through the gateway, whole and streamed, and errors have the engine’s status and text.',
    sameAnswers,
  ),
  row('llama-load', 'llama.cpp: the gateway reads running and waiting requests from its metrics.', load),
  row('llama-abort', 'llama.cpp: a client disconnect frees its slot.', abort),
  row('llama-doctor', 'llama.cpp: doctor recognises the server, its metrics and its cached tokens.', doctor),
]
