/** Terms of the costs of routing policies in words, for tooltips. */
const TERMS: Readonly<Record<string, string>> = {
  network_s: 'Round trip to the engine, seconds.',
  queued_s: 'Time until the prompts that are queued at the engine are computed, seconds.',
  prefill_s: 'Time to compute the uncached tokens of this prompt, seconds.',
  load_s: 'Time to load cached tokens from host memory, disk or a remote store, seconds.',
  adapter_s: 'Time to load the adapter of the request, seconds.',
  delay_s: 'What the running steps of the engine add before the first token, seconds.',
  later_s: 'Usual delay by prompts that arrive later, seconds.',
  taken_s: 'Delay of the requests behind this one, seconds.',
  slow_start: 'Factor for an engine that has just joined or restarted.',
  decode_s: 'Slower decoding because of the streams that run there, seconds.',
  streams_s: 'Delay of the running streams while this prompt is computed, seconds.',
  barrier_s: 'Price of KV memory that is nearly full, seconds.',
  recent_s: 'Price of prompts that were placed there a moment ago, seconds.',
  confidence: 'Confidence of the cost model: 0 prior only, 1 learned from consistent samples.',
  cached_tokens: 'Tokens of this prompt that the engine has cached.',
  requests: 'Requests that run or wait there.',
  by_cache: '1: chosen by cached tokens; 0: by load.',
  matched_tokens: 'Tokens of this prompt that LMCache found.',
  arrivals: 'Requests placed there in the last 60 s.',
  weight: 'Weight of the engine in the configuration.',
  turn: 'Virtual time of the engine’s next turn.',
  queued_work: 'Attention work of the prompts that are queued there, query-key pairs.',
  new_work: 'Attention work of the uncached part of this prompt, query-key pairs.',
  new_tokens: 'Tokens of this prompt that are not cached there.',
  queued_tokens: 'Uncached tokens of the prompts that are queued there.',
  prefill_blocks: 'Blocks of this prompt that are not cached there.',
  potential_blocks: 'Blocks that running requests would hold, this one included.',
  credit_blocks: 'Blocks that count as cached, by the weight of the overlap.',
}

/** undefined: a term without a description. */
export const costTermText = (term: string): string | undefined => TERMS[term]
