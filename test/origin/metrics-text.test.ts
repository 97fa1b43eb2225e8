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

  it('have an older name for the cache in use', () => {
    expect(readEngineMetrics('vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.5\n')?.stats.kvUsage).toBe(0.5)
  })
})
