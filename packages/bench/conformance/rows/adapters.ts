/** LoRA adapters with random weights on two real engines: found, loaded on demand and unloaded by the gateway. */
import { prepareAdapters, adapterFolder, adapterNames } from '../environment.ts'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { sendJson, send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { until } from '../until.ts'
import { direct, withKey } from './asks.ts'
import { asAdmin, sendAsAdmin } from './decisions.ts'

/** Requests to an adapter that one engine has. */
const REPEATED = 5
/** Adapters of one engine, in the fleet `adapters`. */
const MAX_PER_ENGINE = 1

export function adapterRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-adapters`,
    says:
      `LoRA adapters of two engines (${kind}) are found in \`/v1/models\`, and requests go to the engine that has the ` +
      `adapter. With \`adapters.load\`, others are loaded on demand, at most ${MAX_PER_ENGINE} per engine: the least ` +
      'recently used one is unloaded. Each output is that of the adapter, never that of the base model.',
    run: (lab) => useAdapters(lab, kind),
  }
}

const PROMPT = 'Select all rows of the table'

/** Output of the engine itself for this model or adapter. */
async function outputAt(engine: RealEngine, model: string): Promise<string> {
  return textOf(await sendJson(direct(engine, bodyFor(model))))
}

const bodyFor = (model: string): object => ({ model, prompt: PROMPT, max_tokens: 8, temperature: 0, ignore_eos: true })
const textOf = (answer: unknown): string => (answer as { choices: { text: string }[] }).choices[0]!.text

interface AdapterAnswer {
  readonly engine: string
  readonly text: string
  readonly ms: number
}

async function ask({ url }: RunningGateway, model: string): Promise<AdapterAnswer> {
  const sentAt = performance.now()
  const { status, headers, body } = await send({
    url,
    method: 'POST',
    path: '/v1/completions',
    headers: withKey({}),
    body: bodyFor(model),
  })
  check(status === 200, `${model}: ${status} ${body.toString('utf8').slice(0, 200)}`)
  const text = textOf(JSON.parse(body.toString('utf8')))
  return { engine: headers['x-firstlight-engine']!, text, ms: performance.now() - sentAt }
}

/** Adapters that the engine itself lists. */
async function loadedAt(engine: RealEngine): Promise<string[]> {
  const { data } = await sendJson<{ data: { id: string; parent: string | null }[] }>({
    ...direct(engine, undefined, '/v1/models'),
    method: 'GET',
  })
  return data.filter(({ parent }) => parent !== null).map(({ id }) => id)
}

async function useAdapters(lab: Lab, kind: GatewayKind): Promise<string> {
  await prepareAdapters(lab.processes, lab.environment)
  const both = [await lab.engine('lora-a'), await lab.engine('lora-b')]
  const [first, second] = adapterNames
  for (const engine of both)
    for (const name of await loadedAt(engine))
      await send(direct(engine, { lora_name: name }, '/v1/unload_lora_adapter'))
  const holder = both[1]!
  const put = await send(direct(holder, { lora_name: first, lora_path: adapterFolder(first) }, '/v1/load_lora_adapter'))
  check(put.status === 200, `loading: ${put.status} ${put.body.toString('utf8').slice(0, 300)}`)
  const gateway = await lab.gateway(kind, 'adapters')
  let base = ''
  await until(
    async () => {
      // On Workers, checks of engines follow requests.
      base = (await ask(gateway, servedModel)).text
      return (await residentsOf(gateway, holder.name)).includes(first)
    },
    `${first} at ${holder.name}`,
    { limitMs: 90_000, everyMs: 1000 },
  )
  const repeated: AdapterAnswer[] = []
  for (let at = 0; at < REPEATED; at++) repeated.push(await ask(gateway, first))
  check(
    repeated.every(({ engine }) => engine === holder.name),
    `${first}, which ${holder.name} has, was answered by ${repeated.map(({ engine }) => engine).join(' ')}`,
  )
  const seen: string[] = []
  for (const name of [second, adapterNames[2], first, second]) {
    const answer = await ask(gateway, name)
    const engine = both.find((one) => one.name === answer.engine)!
    const own = await outputAt(engine, name)
    check(answer.text === own && answer.text !== base, `${name}: ${JSON.stringify([answer.text, own, base])}`)
    const counts = await Promise.all(both.map(loadedAt))
    check(
      counts.every((names) => names.length <= MAX_PER_ENGINE),
      `${JSON.stringify(counts)} are loaded after ${name}`,
    )
    seen.push(`${name} by ${answer.engine} in ${Math.round(answer.ms)} ms (loaded: ${counts.map(String).join(' | ')})`)
  }
  const [loads, unloads] = [await counted(gateway, 'loads'), await counted(gateway, 'unloads')]
  check(loads >= 2 && unloads >= 1, `${loads} loads and ${unloads} unloads counted; ${seen.join(', ')}`)
  return `${REPEATED} of ${REPEATED} requests at the engine with the adapter; ${seen.join(', ')}; ${loads} loads, ${unloads} unloads`
}

async function residentsOf(gateway: RunningGateway, engine: string): Promise<readonly string[]> {
  const { pools } = await asAdmin<{ pools: { engines: { id: string; residents?: { loaded: string[] } }[] }[] }>(
    gateway,
    '/v1/firstlight/fleet',
  )
  return pools[0]!.engines.find(({ id }) => id === engine)?.residents?.loaded ?? []
}

/** Sum of a counter over all engines. */
async function counted(gateway: RunningGateway, what: 'loads' | 'unloads'): Promise<number> {
  const text = await sendAsAdmin(gateway, '/metrics', 'GET')
  const lines = text.split('\n').filter((line) => line.startsWith(`firstlight_engine_adapter_${what}_total{`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
