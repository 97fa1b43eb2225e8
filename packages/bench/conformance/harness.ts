/** Benchmark harnesses of other projects, as they come from PyPI: how each is installed, called and read. */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, pythonFrom } from './environment.ts'
import { installFailure } from './install-failure.ts'
import type { Processes } from './processes.ts'
import { inCache } from './standalone.ts'

/** Shape of every run. */
export const REQUESTS = 40
export const OUTPUT_TOKENS = 16
const CONCURRENCY = 4
const PROMPT_TOKENS = 200
const INSTALL_LIMIT_S = 600

/** What a harness calls and where it writes. */
export interface HarnessTarget {
  readonly url: string
  readonly model: string
  /** Folder of the model's tokenizer. */
  readonly tokenizer: string
  /** An empty folder. */
  readonly folder: string
}

/** What a harness reports of its run. */
export interface HarnessReport {
  readonly completed: number
  readonly failed: number
  readonly outputTokens: number
  readonly meanTtftMs: number
}

export interface Harness {
  readonly name: string
  /** Package of PyPI and its version; null: the command of vLLM itself. */
  readonly packaged: { readonly name: string; readonly version: string; readonly minPython: number } | null
  /** Program and arguments; writes the files that it needs. */
  command(target: HarnessTarget, program: string): readonly string[]
  read(folder: string): HarnessReport
}

const words = (text: string): string[] => text.split(' ')
const json = (...path: readonly string[]): unknown => JSON.parse(readFileSync(join(...path), 'utf8'))

const vllmBench: Harness = {
  name: 'vllm-bench',
  packaged: null,
  command: ({ url, model, tokenizer, folder }, program) => [
    program,
    ...words('bench serve --backend openai-chat --endpoint /v1/chat/completions --dataset-name random --ignore-eos'),
    ...words(`--random-input-len ${PROMPT_TOKENS} --random-output-len ${OUTPUT_TOKENS}`),
    ...words(`--num-prompts ${REQUESTS} --max-concurrency ${CONCURRENCY} --base-url ${url} --model ${model}`),
    ...words('--save-result --result-filename report.json --result-dir'),
    folder,
    '--tokenizer',
    tokenizer,
  ],
  read: (folder) => {
    const report = json(folder, 'report.json') as Record<string, number>
    return {
      completed: report['completed']!,
      failed: report['failed']!,
      outputTokens: report['total_output_tokens']!,
      meanTtftMs: report['mean_ttft_ms']!,
    }
  },
}

const aiperf: Harness = {
  name: 'aiperf',
  packaged: { name: 'aiperf', version: '0.13.0', minPython: 11 },
  command: ({ url, model, tokenizer, folder }, program) => [
    program,
    ...words(`profile -m ${model} --url ${url} --endpoint-type chat --streaming --ui none --use-server-token-count`),
    ...words(`--extra-inputs ignore_eos:true --request-count ${REQUESTS} --concurrency ${CONCURRENCY}`),
    ...words(`--synthetic-input-tokens-mean ${PROMPT_TOKENS} --output-tokens-mean ${OUTPUT_TOKENS} --artifact-dir`),
    folder,
    '--tokenizer',
    tokenizer,
  ],
  read: (folder) => {
    const report = json(folder, 'profile_export_aiperf.json') as Record<string, { avg: number } | null>
    return {
      completed: report['request_count']!.avg,
      failed: report['error_request_count']?.avg ?? 0,
      outputTokens: report['total_output_tokens']!.avg,
      meanTtftMs: report['time_to_first_token']!.avg,
    }
  },
}

const guidellm: Harness = {
  name: 'guidellm',
  packaged: { name: 'guidellm', version: '0.8.1', minPython: 11 },
  command: ({ url, model, tokenizer, folder }, program) => [
    program,
    ...words(`run --backend kind=openai_http,target=${url},model=${model} --disable-console-interactive`),
    ...words(`--profile kind=concurrent,streams=${CONCURRENCY} --constraint kind=max_requests,count=${REQUESTS}`),
    ...words(`--data kind=synthetic_text,prompt_tokens=${PROMPT_TOKENS},output_tokens=${OUTPUT_TOKENS}`),
    ...words(`--data-loader kind=pytorch,samples=${REQUESTS},prefetch_factor=2 --output`),
    `kind=json,path=${join(folder, 'report.json')}`,
    '--tokenizer',
    `kind=hf_auto,model=${tokenizer}`,
  ],
  read: (folder) => {
    const { benchmarks } = json(folder, 'report.json') as {
      benchmarks: {
        metrics: Record<'request_totals' | 'output_token_count' | 'time_to_first_token_ms', Record<string, unknown>>
      }[]
    }
    const { request_totals: totals, output_token_count: tokens, time_to_first_token_ms: ttft } = benchmarks[0]!.metrics
    return {
      completed: Number(totals['successful']),
      failed: Number(totals['errored']) + Number(totals['incomplete']),
      outputTokens: (tokens['successful'] as { total_sum: number }).total_sum,
      meanTtftMs: (ttft['successful'] as { mean: number }).mean,
    }
  },
}

const inferencePerf: Harness = {
  name: 'inference-perf',
  packaged: { name: 'inference-perf', version: '0.7.0', minPython: 12 },
  command: ({ url, model, tokenizer, folder }, program) => {
    const fixed = (count: number): object => ({
      type: 'fixed',
      min: count,
      max: count,
      mean: count,
      std_dev: 0,
      total_count: REQUESTS,
    })
    const config = join(folder, 'config.json')
    const settings = {
      // Its generator of random prompts has no chats.
      api: { type: 'completion', streaming: true },
      data: { type: 'random', input_distribution: fixed(PROMPT_TOKENS), output_distribution: fixed(OUTPUT_TOKENS) },
      load: {
        type: 'concurrent',
        num_workers: 1,
        stages: [{ num_requests: REQUESTS, concurrency_level: CONCURRENCY }],
      },
      server: { type: 'vllm', model_name: model, base_url: url, ignore_eos: true },
      tokenizer: { pretrained_model_name_or_path: tokenizer },
      report: { request_lifecycle: { use_server_output_tokens: true } },
      storage: { local_storage: { path: join(folder, 'report') } },
    }
    // JSON is YAML.
    writeFileSync(config, JSON.stringify(settings))
    return [program, '--config_file', config]
  },
  read: (folder) => {
    const file = readdirSync(join(folder, 'report'), { recursive: true }).find((name) =>
      String(name).endsWith('summary_lifecycle_metrics.json'),
    )
    const report = json(folder, 'report', String(file)) as {
      successes: { count: number; output_tokens: { total: number }; latency: { time_to_first_token: { mean: number } } }
      failures: { count: number }
    }
    const { count, output_tokens: tokens, latency } = report.successes
    return {
      completed: count,
      failed: report.failures.count,
      outputTokens: tokens.total,
      meanTtftMs: 1000 * latency.time_to_first_token.mean,
    }
  },
}

export const harnesses = { vllmBench, aiperf, guidellm, inferencePerf } as const

const venvOf = ({ name }: Harness): string => inCache('harnesses', name)

/** Program of an installed harness. */
export const programOf = (harness: Harness): string => join(venvOf(harness), 'bin', harness.packaged!.name)

/** Installs a harness into an environment of its own. Returns why it cannot run here; null: it can. */
export async function installHarness(harness: Harness, processes: Processes): Promise<string | null> {
  const { name, version, minPython } = harness.packaged!
  const folder = venvOf(harness)
  const stamp = join(folder, `installed-${version}`)
  if (existsSync(stamp)) return null
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const step = (what: string, command: readonly string[]) =>
    processes.finish({ what, command, folder: cacheFolder, limitS: INSTALL_LIMIT_S })
  try {
    await step(`make an environment for ${name}`, [await pythonFrom(processes, minPython), '-m', 'venv', folder])
    await step(`install ${name}`, [join(folder, 'bin/python'), '-m', 'pip', 'install', '-q', `${name}==${version}`])
    writeFileSync(stamp, '')
    return null
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    return `${name} ${version} is not installed and cannot be fetched: ${installFailure(error)}`
  }
}
