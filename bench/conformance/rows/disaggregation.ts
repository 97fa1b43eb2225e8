/** Prefill on one real engine, decode on another: the KV cache travels by NIXL over CPU memory. */
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { GatewayKind } from '../gateway.ts'
import { send } from '../http.ts'
import { record, vectorFile } from '../recorder.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { writeVectors } from '../vector.ts'
import { direct, through } from './asks.ts'

/** Held blocks wait for the decode engine: what vLLM's own proxies send to a prefill engine. */
const hold = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, remote_host: null, remote_port: null }

export const nixlRecording: Row = {
  name: 'record-nixl',
  says: 'The answer of a prefill engine names its blocks; given to a decode engine unchanged, the text is that of one engine.',
  run: async (lab) => {
    const [prefill, decode] = [await lab.engine('prefill'), await lab.engine('decode')]
    const ask = { model: servedModel, prompt: prompt(0), temperature: 0, ignore_eos: true }
    const first = await record(prefill.url, 'nixl-prefill', { method: 'POST', path: '/v1/completions', json: { ...ask, max_tokens: 1, kv_transfer_params: hold } })
    const params = (first.response.json as { kv_transfer_params: Readonly<Record<string, unknown>> }).kv_transfer_params
    const second = await record(decode.url, 'nixl-decode', { method: 'POST', path: '/v1/completions', json: { ...ask, max_tokens: 8, kv_transfer_params: params } })
    const whole = await record(prefill.url, 'nixl-whole', { method: 'POST', path: '/v1/completions', json: { ...ask, max_tokens: 8, cache_salt: 'whole' } })
    check(textOf(second.response.json) === textOf(whole.response.json), `${textOf(second.response.json)}, not ${textOf(whole.response.json)}`)
    const about = 'The two legs of a split request, and the same request whole. The engine id and the port are of that run.'
    return `${Object.keys(params).join(' ')}; ${lab.writeVector('nixl.json', steady(writeVectors(vectorFile(about, lab.environment.versions.vllm ?? 'unknown', ['--kv-transfer-config'], [first, second, whole]))))}`
  },
}

export function splitRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-split`,
      says: `A request split by the gateway (${kind}) says what one engine says, and its prompt was not computed twice, by the decode engine's own count.`,
      run: async (lab) => split(lab, kind),
    },
    {
      name: `${kind}-prefill-dies`,
      says: `When the prefill engine dies, the decode engine serves on alone (${kind}).`,
      run: async (lab) => prefillDies(lab, kind),
    },
  ]
}

async function split(lab: Lab, kind: GatewayKind): Promise<string> {
  const [prefill, decode] = [await lab.engine('prefill'), await lab.engine('decode')]
  const before = await moved(decode)
  let tokens = 0
  for (let round = 1; round <= 6; round++) {
    const body = { model: servedModel, prompt: prompt(round), max_tokens: 8, temperature: 0, ignore_eos: true }
    const asked = round % 2 === 0 ? { ...body, stream: true } : body
    const answer = await send(await through(lab, kind, asked, { pair: 'split' }))
    const text = answer.body.toString('utf8')
    const said = round % 2 === 0 ? streamText(text) : textOf(JSON.parse(text))
    const whole = await send(direct(prefill, { ...body, cache_salt: 'whole' }))
    check(said === textOf(JSON.parse(whole.body.toString('utf8'))), `round ${round}: ${said}, not ${whole.body.toString('utf8').slice(0, 200)}`)
    tokens += body.prompt.length
  }
  await until(async () => (await moved(decode)) > before, 'the decode engine to count', { limitMs: 3000 }).catch(() => 0)
  const count = (await moved(decode)) - before
  check(count >= 0.9 * tokens, `of ${tokens} prompt tokens ${count} came from the prefill engine`)
  return `6 of 6 texts equal; ${count} of ${tokens} prompt tokens came from the prefill engine`
}

async function prefillDies(lab: Lab, kind: GatewayKind): Promise<string> {
  const prefill = await lab.engine('prefill')
  await lab.gateway(kind, 'split')
  prefill.process?.kill('SIGKILL')
  const statuses: number[] = []
  for (let round = 10; round < 16; round++) {
    const body = { model: servedModel, prompt: prompt(round), max_tokens: 4, temperature: 0, ignore_eos: true }
    statuses.push((await send(await through(lab, kind, body, { pair: 'split' }))).status)
  }
  check(statuses.every((status) => status === 200), `statuses ${statuses.join(' ')}`)
  return '6 of 6 served'
}

/** 300 tokens that no other round has. */
function prompt(round: number): number[] {
  return Array.from({ length: 300 }, (_, at) => 10 + ((at * 7 + round * 131) % 2000))
}

function moved(engine: RealEngine): Promise<number> {
  return engine.metric('vllm:prompt_tokens_by_source_total', { source: 'external_kv_transfer' })
}

function textOf(answer: unknown): string {
  return (answer as { choices?: { text: string }[] } | undefined)?.choices?.[0]?.text ?? '(no text)'
}

function streamText(text: string): string {
  return [...text.matchAll(/"text":("(?:[^"\\]|\\.)*")/g)].map(([, quoted]) => JSON.parse(quoted!) as string).join('')
}

/** Ids and ports of one run, made those of all. */
function steady(text: string): string {
  return text.replaceAll(/"remote_engine_id":"[^"]+"/g, '"remote_engine_id":"00000000-0000-0000-0000-000000000000"').replaceAll(/"remote_port":\d+/g, '"remote_port":0').replaceAll(/(cmpl-nixl-prefill-0-)[0-9a-f]{8}/g, '$100000000')
}
