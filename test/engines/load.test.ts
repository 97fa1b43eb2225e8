import { describe, expect, it } from 'vitest'
import { readMetrics, METRICS_PATHS } from '../../src/engines/engine-registry.ts'
import { completedByRank } from '../../src/engines/load-metrics.ts'
import { namesPattern, samplesOf } from '../../src/engines/prometheus-text.ts'
import { sglang } from '../../src/engines/sglang.ts'
import { vllm } from '../../src/engines/vllm.ts'

const vllmOf = (rank: number, running: number, cache = 'num_gpu_blocks="2000"'): string => `
vllm:num_requests_running{engine="${rank}",model_name="tiny"} ${running}.0
vllm:num_requests_waiting{engine="${rank}",model_name="tiny"} ${running / 2}
vllm:kv_cache_usage_perc{engine="${rank}",model_name="tiny"} ${rank === 0 ? 0.25 : 0.75}
vllm:engine_sleep_state{engine="${rank}",model_name="tiny",sleep_state="awake"} ${rank}.0
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="${rank}",${cache},odd="a \\"quoted\\", } value"} 1.0
vllm:request_success_total{engine="${rank}",finished_reason="stop"} ${9 + rank}.0
vllm:request_success_total{engine="${rank}",finished_reason="length"} 1.0
`
const adapters = `vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql",waiting_lora_adapters=""} 1.7000000e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql, chat",waiting_lora_adapters=""} 1.7000001e+09
`
/** Field case S5: both labels have the sum of the ranks. */
const two = vllmOf(0, 8) + vllmOf(1, 0) + adapters

describe('the load of data-parallel ranks', () => {
  it('the load of data-parallel ranks is that of the rank, with its share of the cache', () => {
    expect(readMetrics(two, '0')).toMatchObject({ ranks: ['0', '1'], asleep: true })
    expect(readMetrics(two, '0')?.stats).toEqual({
      running: 8,
      waiting: 4,
      kvUsage: 0.25,
      blockTokens: 16,
      cacheBlocks: 1000,
      prefixCaching: true,
      adapters: { running: ['sql', 'chat'], max: 4 },
    })
    expect(readMetrics(two, '1')).toMatchObject({ asleep: false, stats: { running: 0, waiting: 0, cacheBlocks: 1000 } })
  })

  it('the load of data-parallel ranks adds up if they count as one engine, and the repeated total of blocks counts once', () => {
    expect(readMetrics(two)).toMatchObject({
      type: { name: 'vllm' },
      asleep: false,
      stats: { running: 8, waiting: 4, kvUsage: 0.5, cacheBlocks: 2000 },
    })
  })

  it('the load of data-parallel ranks has the cache in tokens of each rank where it is reported', () => {
    const tokens = 'kv_cache_size_tokens="8000",num_gpu_blocks="2000"'
    const both = vllmOf(0, 1, tokens) + vllmOf(1, 1, tokens)
    expect(readMetrics(both, '1')?.stats.cacheBlocks).toBe(500)
    expect(readMetrics(both)?.stats.cacheBlocks).toBe(1000)
    expect(readMetrics(both.replaceAll('"8000"', '"None"'), '1')?.stats.cacheBlocks).toBe(1000)
  })

  it('the load of data-parallel ranks shows which ranks completed requests', () => {
    const { metrics } = vllm.load!
    const samples = samplesOf(two, namesPattern(metrics.completed))
    expect([...completedByRank(metrics, samples)]).toEqual([
      ['0', 10],
      ['1', 11],
    ])
  })

  it('the load of data-parallel ranks of SGLang counts each rank once, whichever tensor-parallel ranks export it', () => {
    const rank = (dp: number, tp: number, running: number): string =>
      `sglang:num_running_reqs{dp_rank="${dp}",tp_rank="${tp}"} ${running}\n`
    const text = rank(0, 0, 4) + rank(0, 1, 4) + rank(1, 2, 6) + rank(1, 3, 6)
    expect(readMetrics(text)?.stats.running).toBe(10)
    expect(readMetrics(text, '1')?.stats.running).toBe(6)
  })

  it('the load of data-parallel ranks of SGLang is read from /v1/loads with the queued prefill', () => {
    const { read } = sglang.load!.ranksRoute!
    const rank = { dp_rank: 1, num_running_reqs: 2, num_waiting_reqs: 3, num_waiting_uncached_tokens: 900 }
    expect(read({ loads: [{ ...rank, max_total_num_tokens: 4096, token_usage: 0.5 }, { dp_rank: 2 }] })).toEqual([
      { rank: 1, running: 2, waiting: 3, queuedPrefillTokens: 900, cacheTokens: 4096, kvUsage: 0.5 },
    ])
    expect(read({ error: 'x' })).toEqual([])
  })
})

/** Lines in the formats of the sources that docs/engines.md names. */
const others = {
  sglang: `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.31
sglang:cache_config_info{engine_type="unified",model_name="m",num_pages="4096",page_size="64",pp_rank="0",tp_rank="0"} 1.0
`,
  tensorrt: `trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 7.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 2.0
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.62
trtllm_kv_cache_tokens_per_block{engine_type="trtllm",model_name="m"} 32.0
trtllm_kv_cache_max_blocks{engine_type="trtllm",model_name="m"} 1000.0
`,
  llama: 'llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n',
  tgi: '# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 4\n\ntgi_queue_size 9\n',
}

const statsOf = (text: string): unknown[] => {
  const { type, stats } = readMetrics(text)!
  return [type.name, stats.running, stats.waiting, stats.kvUsage, stats.blockTokens, stats.cacheBlocks]
}

describe('the load of other engines', () => {
  it.each([
    ['SGLang', others.sglang, ['sglang', 5, 3, 0.31, 64, 4096]],
    ['SGLang with underscores', others.sglang.replaceAll('sglang:', 'sglang_'), ['sglang', 5, 3, 0.31, 64, 4096]],
    ['TensorRT-LLM', others.tensorrt, ['tensorrt-llm', 7, 2, 0.62, 32, 1000]],
    ['llama.cpp', others.llama, ['llama.cpp', 2, 1, null, null, null]],
    ['TGI', others.tgi, ['tgi', 4, 9, null, null, null]],
    [
      'vLLM before 0.9',
      'vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.5\n',
      ['vllm', 1, 0, 0.5, null, null],
    ],
  ])('the load of other engines of %s is read', (_, text, expected) => {
    expect(statsOf(text)).toEqual(expected)
  })

  it.each([
    [
      'vLLM',
      `vllm:num_requests_running{engine="0"} 1.0
vllm:prompt_tokens_total{engine="0"} 100.0
vllm:prompt_tokens_created{engine="0"} 1.7e+09
vllm:generation_tokens_total{engine="0"} 20.0
vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 7.0
vllm:iteration_tokens_total_count{engine="0"} 8.0
`,
      { total: 128, live: 28, prefill: null },
    ],
    [
      'SGLang',
      `sglang:num_running_reqs{tp_rank="0"} 1.0
sglang:realtime_tokens_total{mode="prefill_compute",tp_rank="0"} 500.0
sglang:realtime_tokens_total{mode="prefill_cache",tp_rank="0"} 900.0
sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 40.0
sglang:generation_tokens_total{tp_rank="0"} 30.0
`,
      { total: 570, live: null, prefill: 500 },
    ],
    [
      'TensorRT-LLM',
      `trtllm_num_requests_running{model_name="m"} 7.0
trtllm_prompt_tokens_total{model_name="m"} 100.0
trtllm_generation_tokens_total{model_name="m"} 20.0
`,
      { total: 120, live: null, prefill: null },
    ],
    [
      'llama.cpp',
      'llamacpp:requests_processing 2\nllamacpp:prompt_tokens_total 100\nllamacpp:tokens_predicted_total 20\nllamacpp:n_decode_total 8\n',
      { total: 128, live: 8, prefill: null },
    ],
  ])('the load of other engines has the counters of %s', (_, text, expected) => {
    expect(readMetrics(text)?.stats.work).toEqual(expected)
  })

  it('the load of data-parallel ranks has the counters of each rank', () => {
    const tokens = (rank: number, count: number) => `vllm:generation_tokens_total{engine="${rank}"} ${count}\n`
    const text = vllmOf(0, 1) + vllmOf(1, 1) + tokens(0, 5) + tokens(1, 7)
    expect([readMetrics(text, '0'), readMetrics(text, '1')].map((load) => load?.stats.work?.live)).toEqual([5, 7])
    expect(readMetrics(text)?.stats.work?.live).toBe(12)
    expect(readMetrics(two)?.stats).not.toHaveProperty('work')
  })

  it('the load of other engines is unknown in a text without a queue', () => {
    expect(readMetrics('vllm:num_requests_running{a="1"} NaN\n')).toBeNull()
    expect(readMetrics('<html>404</html>')).toBeNull()
  })

  it('the load of other engines counts names only at the beginning of a line and as a whole', () => {
    const gauge = 'vllm:num_requests_running{engine="0"}'
    const lines = [`a_${gauge} 7`, ` ${gauge} 7`, `# ${gauge} 7`, gauge.replace('{', '_by{') + ' 7', gauge]
    const text = [...lines, '', `${gauge} 2`, `vllm:num_requests_running{a="\\\\n\\"",b=""} 3`].join('\n')
    expect(readMetrics(text)?.stats.running).toBe(5)
    expect(readMetrics(text.replaceAll('\n', '\r\n'))?.stats.running).toBe(5)
    expect(readMetrics(lines.join('\n'))).toBeNull()
  })

  it('the load of other engines is read at /metrics first', () => {
    expect(METRICS_PATHS).toEqual(['/metrics', '/prometheus/metrics'])
  })
})
