/**
 * TensorRT-LLM (`trtllm-serve`). Sources: stored files of NVIDIA/TensorRT-LLM of several dates, documentation of the
 * 1.3 and 1.4 candidates. Not run: it needs a GPU.
 */
import { answersBy } from './answer-meaning.ts'
import { PLAIN, VERSION_PATTERN, type EngineType } from './engine-type.ts'
import { queueMetrics } from './load-metrics.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'

/**
 * llm.py `_check_arguments`, with chunked prefill off: it compares the prompt only. Most other exceptions are 400
 * `BadRequestError` as well, so faults of the engine cannot be told from those of the request.
 */
export const TENSORRT_LLM_TOO_LONG = [
  /^The sum of prompt length \([\d.]+\).* should not exceed max_num_tokens \((?<limit>\d+)\)/,
] as const

export const tensorrtLlm: EngineType = {
  ...PLAIN,
  name: 'tensorrt-llm',
  title: 'TensorRT-LLM',
  detection: { metrics: ['trtllm_'], owners: ['tensorrt_llm'], server: null, routes: [] },
  version: { path: '/version', pattern: VERSION_PATTERN },
  load: {
    // `/metrics` is JSON of which each reader removes records, so it is read only to find that out.
    paths: ['/metrics', '/prometheus/metrics'],
    metrics: {
      ...queueMetrics('trtllm_num_requests_running', 'trtllm_num_requests_waiting', ['trtllm_kv_cache_utilization']),
      blockTokens: [{ metric: 'trtllm_kv_cache_tokens_per_block' }],
      cacheBlocks: [{ metric: 'trtllm_kv_cache_max_blocks' }],
      // Both grow at the end of a request.
      work: [{ metric: 'trtllm_prompt_tokens_total' }, { metric: 'trtllm_generation_tokens_total' }],
    },
    ranksRoute: null,
    enabledBy: 'return_perf_metrics: true in the file of --config',
  },
  answerOf: answersBy({
    texts: PROXY_TEXTS,
    tooLong: TENSORRT_LLM_TOO_LONG,
    tooManyRequests: 'busy',
  }),
  // Not verified: the server has one model and is not known to compare the name.
  checksModel: false,
  deniedFields: ['disaggregated_params'],
}
