/** Prefill on one real engine, decode on another: NIXL moves the KV cache over CPU memory. */
import { rmSync } from 'node:fs'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { sharedFiles } from '../fleets.ts'
import type { GatewayKind } from '../gateway.ts'
import { freePorts, send } from '../http.ts'
import { record, vectorFile } from '../recorder.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { writeVectors } from '../vector.ts'
import { direct, through } from './asks.ts'

/** Keeps blocks for the decode engine: the fields that vLLM's own proxies send to a prefill engine. */
const hold = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
}

export const nixlRecording: Row = {
  name: 'record-nixl',
  says:
    'A prefill response names its blocks. Forwarded unchanged to a decode engine, once or twice, they give the ' +
    'text of a single engine; blocks of an unknown engine give a 500 without a crash.',
  run: async (lab) => {
    const [prefill, decode] = [await lab.engine('prefill'), await lab.engine('decode')]
    const ask = { model: servedModel, prompt: prompt(0), temperature: 0, ignore_eos: true }
    const first = await record(prefill.url, 'nixl-prefill', {
      method: 'POST',
      path: '/v1/completions',
      json: { ...ask, max_tokens: 1, kv_transfer_params: hold },
    })
    const params = (first.response.json as { kv_transfer_params: Readonly<Record<string, unknown>> }).kv_transfer_params
    const second = await record(decode.url, 'nixl-decode', {
      method: 'POST',
      path: '/v1/completions',
      json: { ...ask, max_tokens: 8, kv_transfer_params: params },
    })
    const whole = await record(prefill.url, 'nixl-whole', {
      method: 'POST',
      path: '/v1/completions',
      json: { ...ask, max_tokens: 8, cache_salt: 'whole' },
    })
    check(
      textOf(second.response.json) === textOf(whole.response.json),
      `${textOf(second.response.json)}, not ${textOf(whole.response.json)}`,
    )
    // From the decode engine: blocks that it has already fetched, and blocks of an engine that does not exist.
    const again = await record(decode.url, 'nixl-decode-again', {
      method: 'POST',
      path: '/v1/completions',
      json: { ...ask, max_tokens: 8, kv_transfer_params: params },
    })
    check(
      textOf(again.response.json) === textOf(whole.response.json),
      `the second answer was ${textOf(again.response.json)}`,
    )
    const [nobody] = await freePorts(1)
    const lost = {
      ...params,
      remote_engine_id: '11111111-1111-1111-1111-111111111111',
      remote_request_id: 'cmpl-gone-0-00000000',
      remote_port: nobody,
    }
    const began = performance.now()
    const unknown = await record(decode.url, 'nixl-unknown-remote', {
      method: 'POST',
      path: '/v1/completions',
      json: { ...ask, prompt: prompt(90), max_tokens: 8, kv_transfer_params: lost },
    })
    const waitedS = (performance.now() - began) / 1000
    check(unknown.response.status === 500, `an unknown remote: ${unknown.response.status}`)
    check(
      (await send(direct(decode, { ...ask, max_tokens: 1 }))).status === 200,
      'an unknown remote ended the decode engine',
    )
    const about =
      'The two legs of a split request, the same request whole, the second leg once more, and one that names ' +
      'an engine that is not there. Engine ids and ports are made those of all runs.'
    return (
      `twice: the same text; an unknown remote: 500 after ${waitedS.toFixed(1)} s, and the engine lives; ` +
      `${Object.keys(params).join(' ')}; ` +
      `${lab.writeVector('nixl.json', steady(writeVectors(vectorFile(about, lab.environment.versions.vllm ?? 'unknown', ['--kv-transfer-config'], [first, second, whole, again, unknown]))))}`
    )
  },
}

export function responseRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-split-response`,
    says:
      `With connector \`response\` (${kind}) and vLLM's ExampleConnector, which moves blocks through files, a split ` +
      'request returns the text of a single engine, and the decode engine loads the prompt.',
    run: async (lab) => splitByFiles(lab, kind),
  }
}

export function splitRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-split`,
      says:
        `A request split by the gateway (${kind}) returns the text of a single engine, and the decode engine ` +
        'does not compute the prompt again, by its own count.',
      run: async (lab) => split(lab, kind),
    },
    {
      name: `${kind}-prefill-dies`,
      says: `When the prefill engine dies, the decode engine serves requests alone (${kind}).`,
      run: async (lab) => prefillDies(lab, kind),
    },
  ]
}

async function split(lab: Lab, kind: GatewayKind): Promise<string> {
  const [prefill, decode] = [await lab.engine('prefill'), await lab.engine('decode')]
  const before = await moved(decode)
  let tokens = 0
  for (let round = 1; round <= 6; round++) {
    const body = {
      model: servedModel,
      prompt: prompt(kind === 'node' ? round : round + 500),
      max_tokens: 8,
      temperature: 0,
      ignore_eos: true,
    }
    const request = round % 2 === 0 ? { ...body, stream: true } : body
    const answer = await send(await through(lab, kind, request, { fleet: 'split' }))
    const text = answer.body.toString('utf8')
    const answered = round % 2 === 0 ? streamText(text) : textOf(JSON.parse(text))
    const whole = await send(direct(prefill, { ...body, cache_salt: 'whole' }))
    check(
      answered === textOf(JSON.parse(whole.body.toString('utf8'))),
      `round ${round}: ${answered}, not ${whole.body.toString('utf8').slice(0, 200)}`,
    )
    tokens += body.prompt.length
  }
  await until(async () => (await moved(decode)) > before, 'the decode engine to count', { limitMs: 3000 }).catch(
    () => 0,
  )
  const count = (await moved(decode)) - before
  check(count >= 0.9 * tokens, `of ${tokens} prompt tokens ${count} came from the prefill engine`)
  return `6 of 6 texts equal; ${count} of ${tokens} prompt tokens came from the prefill engine`
}

/** `cached_tokens` of this connector includes blocks from its files. */
async function splitByFiles(lab: Lab, kind: GatewayKind): Promise<string> {
  const [prefill, decode] = [await lab.engine('file-prefill'), await lab.engine('file-decode')]
  const cached: number[] = []
  for (let round = 1; round <= 4; round++) {
    const body = {
      model: servedModel,
      prompt: prompt(kind === 'node' ? round + 900 : round + 950),
      max_tokens: 8,
      temperature: 0,
      ignore_eos: true,
    }
    const before = await prefill.metric('vllm:prompt_tokens_total')
    const answer = await send(await through(lab, kind, body, { fleet: 'files' }))
    const answered = JSON.parse(answer.body.toString('utf8')) as AnswerWithUsage
    const computed = (await prefill.metric('vllm:prompt_tokens_total')) - before
    check(answer.headers['x-firstlight-prefill'] !== undefined && computed >= 300, `round ${round}: not split`)
    // The connector ignores salts, so that only without its files the engine computes the prompt itself.
    rmSync(sharedFiles, { recursive: true, force: true })
    const whole = await send(direct(decode, { ...body, cache_salt: 'whole' }))
    check(textOf(answered) === textOf(JSON.parse(whole.body.toString('utf8'))), `round ${round}: ${textOf(answered)}`)
    cached.push(answered.usage.prompt_tokens_details?.cached_tokens ?? 0)
  }
  check(
    cached.every((tokens) => tokens >= 256),
    `of 300 prompt tokens each, the decode engine loaded ${cached.join(', ')}`,
  )
  return `4 of 4 texts equal; of 300 prompt tokens each, the decode engine loaded ${cached.join(', ')}`
}

interface AnswerWithUsage {
  readonly usage: { readonly prompt_tokens_details?: { readonly cached_tokens?: number } }
}

async function prefillDies(lab: Lab, kind: GatewayKind): Promise<string> {
  const prefill = await lab.engine('prefill')
  await lab.gateway(kind, 'split')
  prefill.process?.kill('SIGKILL')
  const statuses: number[] = []
  for (let round = 10; round < 16; round++) {
    const body = { model: servedModel, prompt: prompt(round), max_tokens: 4, temperature: 0, ignore_eos: true }
    statuses.push((await send(await through(lab, kind, body, { fleet: 'split' }))).status)
  }
  check(
    statuses.every((status) => status === 200),
    `statuses ${statuses.join(' ')}`,
  )
  return '6 of 6 served'
}

/** 300 tokens that no other round uses. */
export function prompt(round: number): number[] {
  return Array.from({ length: 300 }, (_, at) => 10 + ((at * 7 + round * 131) % 2000))
}

export function moved(engine: RealEngine): Promise<number> {
  return engine.metric('vllm:prompt_tokens_by_source_total', { source: 'external_kv_transfer' })
}

export function textOf(answer: unknown): string {
  return (answer as { choices?: { text: string }[] } | undefined)?.choices?.[0]?.text ?? '(no text)'
}

function streamText(text: string): string {
  return [...text.matchAll(/"text":("(?:[^"\\]|\\.)*")/g)].map(([, quoted]) => JSON.parse(quoted!) as string).join('')
}

/** Replaces ids and ports of one run by fixed ones. */
function steady(text: string): string {
  return text
    .replaceAll(/"remote_engine_id":"(?!1111)[^"]+"/g, '"remote_engine_id":"00000000-0000-0000-0000-000000000000"')
    .replaceAll(/"remote_port":\d+/g, '"remote_port":0')
    .replaceAll(/(cmpl-nixl-prefill-0-)[0-9a-f]{8}/g, '$100000000')
}
