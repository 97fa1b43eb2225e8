/** Third-party clients: vLLM's own benchmark, LangChain, LiteLLM. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { servedModel } from '../engine.ts'
import { prepareClients } from '../environment.ts'
import { gatewayKey } from '../gateway.ts'
import type { GatewayKind } from '../gateway.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { total } from './asks.ts'

const script = fileURLToPath(new URL('../python/foreign_clients.py', import.meta.url))
const prompts = 60

export function foreignRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-vllm-bench`,
      says:
        `vllm bench serve runs against the gateway (${kind}): all ${prompts} requests complete with the ` +
        'requested tokens, on both engines.',
      run: async (lab) => vllmBench(lab, kind),
    },
    ...(['langchain', 'litellm'] as const).map((client) => ({
      name: `${kind}-${client}`,
      says:
        `${client === 'langchain' ? 'LangChain' : 'LiteLLM'} works through the gateway (${kind}): turns, streams ` +
        'with usage, tools, its error class.',
      run: async (lab: Lab) => library(lab, kind, client),
    })),
  ]
}

interface BenchResult {
  readonly completed: number
  readonly failed?: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly mean_ttft_ms: number
  readonly p99_ttft_ms: number
  readonly request_throughput: number
}

async function vllmBench(lab: Lab, kind: GatewayKind): Promise<string> {
  const engines = [await lab.engine('a'), await lab.engine('b')]
  const gateway = await lab.gateway(kind)
  const served = () => Promise.all(engines.map((engine) => total([engine], 'vllm:request_success_total')))
  const before = await served()
  const result = `bench-${kind}.json`
  await lab.processes.finish({
    what: `vllm bench serve (${kind})`,
    command: [
      lab.environment.bin('vllm'),
      'bench',
      'serve',
      '--backend',
      'openai-chat',
      '--base-url',
      gateway.url,
      '--endpoint',
      '/v1/chat/completions',
      '--model',
      servedModel,
      '--tokenizer',
      'models/tiny',
      '--dataset-name',
      'random',
      '--random-input-len',
      '128',
      '--random-output-len',
      '16',
      '--num-prompts',
      String(prompts),
      '--max-concurrency',
      '6',
      '--ignore-eos',
      '--save-result',
      '--result-filename',
      result,
      '--disable-tqdm',
      '--percentile-metrics',
      'ttft,tpot,itl',
      '--metric-percentiles',
      '99',
    ],
    folder: lab.environment.folder,
    env: { OPENAI_API_KEY: gatewayKey, HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', DO_NOT_TRACK: '1' },
    limitS: 400,
  })
  const seen = JSON.parse(readFileSync(join(lab.environment.folder, result), 'utf8')) as BenchResult
  const after = await served()
  const counts = after.map((count, at) => count - before[at]!)
  const report =
    `${seen.completed} of ${prompts} completed, ${seen.total_input_tokens} tokens in, ` +
    `${seen.total_output_tokens} out, engines served ${counts.join(' and ')}; mean TTFT ` +
    `${Math.round(seen.mean_ttft_ms)} ms, ${seen.request_throughput.toFixed(1)} requests/s`
  check(seen.completed === prompts && (seen.failed ?? 0) === 0 && seen.total_output_tokens === prompts * 16, report)
  check(
    counts.every((count) => count >= prompts / 3),
    report,
  )
  return report
}

interface ClientReport {
  readonly version: string
  readonly text: string
  readonly stream: string
  readonly output_tokens: number
  readonly tool: string
  readonly unknown_model: string
  readonly batch: number
}

async function library(lab: Lab, kind: GatewayKind, client: 'langchain' | 'litellm'): Promise<string> {
  const python = await prepareClients(lab.processes)
  const { url } = await lab.gateway(kind)
  const lines = await lab.processes.output([python, script, client, `${url}/v1`, gatewayKey, servedModel])
  const report = JSON.parse(lines.split('\n').at(-1)!) as ClientReport
  check(
    report.text === report.stream && report.text.length > 0,
    `the stream returned ${JSON.stringify(report.stream)}, the answer in one piece ${JSON.stringify(report.text)}`,
  )
  check(report.output_tokens === 8, `the stream's usage reported ${report.output_tokens} tokens`)
  check(report.tool === 'get_weather', `tool calls: ${report.tool}`)
  check(report.unknown_model.endsWith('NotFoundError'), `unknown model: ${report.unknown_model}`)
  check(report.batch === 1, `four equal requests at once got ${report.batch} different answers`)
  return (
    `${client} ${report.version}: stream = whole answer; ${report.output_tokens} tokens out; tool ${report.tool}; ` +
    `unknown model: ${report.unknown_model}`
  )
}
