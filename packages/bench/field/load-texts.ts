/** Metrics of an engine of each type with seven running requests. */
interface LoadText {
  readonly path: string
  readonly text: string
  readonly running: number
}

const RUNNING = 7
const gauges = (...names: readonly string[]): string =>
  names.map((name, at) => `# TYPE ${name} gauge\n${name} ${at === 0 ? RUNNING : 0}\n`).join('')

const TEXTS: Readonly<Record<string, readonly [path: string, ...names: string[]]>> = {
  vllm: ['/metrics', 'vllm:num_requests_running', 'vllm:num_requests_waiting'],
  unknown: ['/metrics', 'vllm:num_requests_running', 'vllm:num_requests_waiting'],
  sglang: ['/metrics', 'sglang:num_running_reqs', 'sglang:num_queue_reqs'],
  'tensorrt-llm': ['/prometheus/metrics', 'trtllm_num_requests_running', 'trtllm_num_requests_waiting'],
  'llama.cpp': ['/metrics', 'llamacpp:requests_processing', 'llamacpp:requests_deferred'],
  tgi: ['/metrics', 'tgi_batch_current_size', 'tgi_queue_size'],
}

/** null: this type reports no load. */
export function loadText(type: string): LoadText | null {
  const found = TEXTS[type]
  if (found === undefined) return null
  const [path, ...names] = found
  return { path, text: gauges(...names), running: RUNNING }
}
