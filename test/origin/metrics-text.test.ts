import { describe, expect, it } from 'vitest'
import { readEngineMetrics } from '../../src/origin/metrics-text.ts'

const scrape = `# HELP vllm:num_requests_running Number of requests
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="discard_all"} 0.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="200",odd="a \\"quoted\\", } value"} 1.0
vllm:request_success_total{engine="0",finished_reason="stop"} 9.0
vllm:request_success_created{engine="0"} 1.7e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql",waiting_lora_adapters=""} 1.7000000e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql, chat",waiting_lora_adapters=""} 1.7000001e+09
`

describe('an engine’s metrics', () => {
  it('contain queue, cache and adapters', () => {
    expect(readEngineMetrics(scrape)).toEqual({
      kind: 'vllm',
      asleep: false,
      stats: {
        running: 3,
        waiting: 2,
        kvUsage: 0.25,
        blockTokens: 32,
        cacheBlocks: 200,
        prefixCaching: true,
        adapters: { running: ['sql', 'chat'], max: 4 },
      },
    })
  })

  it('contain the time of the last sleep', () => {
    expect(readEngineMetrics(scrape.replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0'))?.asleep).toBe(true)
  })

  it('of several data-parallel ranks add up', () => {
    const two =
      scrape +
      scrape
        .replaceAll('engine="0"', 'engine="1"')
        .replace('_perc{engine="1",model_name="tiny"} 0.25', '_perc{engine="1",model_name="tiny"} 0.75')
    expect(readEngineMetrics(two)?.stats).toMatchObject({
      running: 6,
      waiting: 4,
      kvUsage: 0.5,
      cacheBlocks: 400,
      blockTokens: 32,
    })
  })

  it('are unknown if absent', () => {
    expect(readEngineMetrics('vllm:num_requests_running 1\n')?.stats).toEqual({
      running: 1,
      waiting: 0,
      kvUsage: null,
      blockTokens: null,
      cacheBlocks: null,
      prefixCaching: null,
      adapters: null,
    })
    expect(readEngineMetrics('vllm:num_requests_running{a="1"} NaN\n')).toBeNull()
    expect(readEngineMetrics('<html>404</html>')).toBeNull()
  })

  it('contain the cache in tokens if available, which models of mixed attention need', () => {
    const hybrid = scrape.replace('num_gpu_blocks="200"', 'kv_cache_size_tokens="3200",num_gpu_blocks="200"')
    expect(readEngineMetrics(hybrid)?.stats).toMatchObject({ blockTokens: 32, cacheBlocks: 100 })
    expect(readEngineMetrics(hybrid.replace('"3200"', '"None"'))?.stats.cacheBlocks).toBe(200)
  })

  it('count only at the beginning of a line, under their whole name, whether or not the last line ends', () => {
    const gauge = 'vllm:num_requests_running{engine="0"}'
    const others = [`a_${gauge} 7`, ` ${gauge} 7`, `# ${gauge} 7`, `\t${gauge} 7`, gauge.replace('{', '_by{') + ' 7']
    const text = [...others, '', `${gauge} 2`, `vllm:num_requests_running{a="\\\\n\\"",b=""} 3`].join('\n')
    expect(readEngineMetrics(text)?.stats.running).toBe(5)
    expect(readEngineMetrics(text.replaceAll('\n', '\r\n'))?.stats.running).toBe(5)
    expect(readEngineMetrics(others.join('\n'))).toBeNull()
  })

  it('have an older name for the cache in use', () => {
    expect(readEngineMetrics('vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.5\n')?.stats.kvUsage).toBe(0.5)
  })
})

/** Lines in the formats of the sources that docs/engines.md names. */
const others = {
  sglang: `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.31
sglang:cache_config_info{engine_type="unified",model_name="m",num_pages="4096",page_size="64",pp_rank="0",tp_rank="0"} 1.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 4.0
`,
  tensorrt: `# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 7.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 2.0
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.62
trtllm_kv_cache_tokens_per_block{engine_type="trtllm",model_name="m"} 32.0
trtllm_kv_cache_max_blocks{engine_type="trtllm",model_name="m"} 1000.0
`,
  llama: `# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
`,
  tgi: '# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 4\n\n# TYPE tgi_queue_size gauge\ntgi_queue_size 9\n',
}

const statsOf = (text: string) => {
  const read = readEngineMetrics(text)!
  const { running, waiting, kvUsage, blockTokens, cacheBlocks } = read.stats
  return [read.kind, running, waiting, kvUsage, blockTokens, cacheBlocks]
}

describe('the metrics of other engines', () => {
  it.each([
    ['SGLang', others.sglang, ['sglang', 5, 3, 0.31, 64, 4096]],
    ['SGLang with underscores', others.sglang.replaceAll('sglang:', 'sglang_'), ['sglang', 5, 3, 0.31, 64, 4096]],
    ['TensorRT-LLM', others.tensorrt, ['tensorrt-llm', 7, 2, 0.62, 32, 1000]],
    ['llama.cpp', others.llama, ['llama.cpp', 2, 1, null, null, null]],
    ['TGI', others.tgi, ['tgi', 4, 9, null, null, null]],
  ])('of %s contain the load', (_, text, expected) => {
    expect(statsOf(text)).toEqual(expected)
  })

  it('count each data-parallel rank of SGLang once, whichever tensor-parallel ranks export it', () => {
    const rank = (dp: number, tp: number, running: number) =>
      `sglang:num_running_reqs{dp_rank="${dp}",tp_rank="${tp}"} ${running}\n`
    expect(statsOf(rank(0, 0, 4) + rank(0, 1, 4) + rank(1, 2, 6) + rank(1, 3, 6))[1]).toBe(10)
    expect(statsOf(others.sglang + others.sglang.replaceAll('tp_rank="0"', 'tp_rank="1"'))[1]).toBe(5)
  })
})
