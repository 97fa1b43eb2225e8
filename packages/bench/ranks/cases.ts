/**
 * Cases of engines as they are deployed: ranks, other types of servers, pauses. Each is tests of the project, which this
 * list names; their files run once for all cases. docs/engines.md names the cases that no test covers.
 */
export interface EngineCase {
  readonly number: number
  readonly title: string
  readonly types: readonly string[]
  /** Full names of tests, each of which must exist and pass. */
  readonly tests: readonly RegExp[]
}

const BOTH = ['vllm', 'sglang'] as const

const CONTRACTS = 'test/node/contracts'

/** Files that have the tests of the cases. */
export const CASE_FILES: readonly string[] = [
  `${CONTRACTS}/ranks.test.ts`,
  `${CONTRACTS}/engine-answers.test.ts`,
  `${CONTRACTS}/cluster.test.ts`,
  `${CONTRACTS}/wedged.test.ts`,
  `${CONTRACTS}/pause.test.ts`,
  `${CONTRACTS}/private-requests.test.ts`,
  `${CONTRACTS}/adapters.test.ts`,
  `${CONTRACTS}/wedged-streams.test.ts`,
  'test/engines/load.test.ts',
  'test/engines/answer-meaning.test.ts',
  'test/core/pool/condition/owed-tokens.test.ts',
  'test/core/pool/pool-state.wedged.test.ts',
  'test/core/pool/pool-state.stalled.test.ts',
  'test/core/pool/pool-state.adapter-loading.test.ts',
  'test/core/kv-events/event-stream.test.ts',
  'test/core/kv-events/block-translator.sglang.test.ts',
  'test/cli/doctor/engine/check-ranks.test.ts',
  'test/config/ranks.test.ts',
]

export const CASES: readonly EngineCase[] = [
  {
    number: 1,
    title: 'a repeated prefix reaches the rank that has it',
    types: ['vllm'],
    tests: [/keeps a prompt on the rank that has it cached/],
  },
  {
    number: 2,
    title: 'load and cache size of a rank are its own',
    types: BOTH,
    tests: [
      /is that of the rank, with its share of the cache/,
      /has the cache in tokens of each rank/,
      /finds the ranks/,
    ],
  },
  {
    number: 3,
    title: 'first rank 4: local and global numbers',
    types: ['vllm'],
    tests: [/sends local numbers to a node whose first rank is 4/, /sends global numbers after the server has listed/],
  },
  {
    number: 4,
    title: '400 out of range never reaches the client',
    types: BOTH,
    tests: [/answers at another rank if the server has fewer/, /about its ranks is recognised/],
  },
  {
    number: 5,
    title: 'a proxy drops the header: one engine',
    types: ['vllm'],
    tests: [/makes one engine of the ranks if the server ignores their header/],
  },
  {
    number: 6,
    title: 'the number of ranks changes under streams',
    types: ['vllm'],
    tests: [/follows the number of ranks, without an end of a running stream/],
  },
  {
    number: 7,
    title: 'drain of a server and of a rank',
    types: ['vllm'],
    tests: [/drains all ranks with their server/],
  },
  {
    number: 8,
    title: 'events of another rank are rejected; replay ports that overlap are an error',
    types: ['vllm'],
    tests: [
      /of rank 1 takes only its own batches/,
      /finds ports that two ranks use/,
      /ports of events that reach those of replays/,
    ],
  },
  {
    number: 10,
    title: 'every busy answer, as status and in a stream',
    types: ['vllm', 'sglang', 'llama.cpp', 'tgi', 'ollama'],
    tests: ['vllm', 'sglang', 'llama.cpp', 'tgi', 'ollama'].map((type) => new RegExp(`an answer of ${type}, on Node`)),
  },
  {
    number: 11,
    title: 'all engines busy: 429, and the queue drains in order',
    types: ['vllm'],
    tests: [/429 reaches the client only if all engines are full/, /served in the order of their arrival/],
  },
  {
    number: 12,
    title: "vLLM's limit stops all ranks, SGLang's one",
    types: BOTH,
    tests: [/the limit of vllm is that of the server/, /the limit of sglang is that of a rank/],
  },
  {
    number: 13,
    title: '404 for the configured model',
    types: ['vllm'],
    tests: [/404 for the configured model is a failure of its engine/, /serves again once it has the model/],
  },
  {
    number: 14,
    title: 'replicas of different context',
    types: ['vllm'],
    tests: [/never visit the small one/, /too long for all gets the answer of the largest/],
  },
  {
    number: 15,
    title: 'an adapter without its base is never sent',
    types: ['sglang'],
    tests: [
      /the name of an adapter without its base model/,
      /an adapter that is not configured/,
      /never reaches the base model of SGLang, also before a probe/,
    ],
  },
  {
    number: 16,
    title: 'core stopped while the health check passes',
    types: ['vllm'],
    tests: [/no request that waits at a wedged engine is lost/],
  },
  { number: 17, title: 'a long prefill is no stall', types: ['vllm'], tests: [/a long prefill is not overdue/] },
  {
    number: 18,
    title: 'a stalled engine or rank that reports no running request is found',
    types: ['vllm'],
    tests: [/found wedged although it reports that no request runs/, /a stalled rank of a server leaves the streams/],
  },
  {
    number: 19,
    title: 'many engines silent at once: no mass exclusion',
    types: ['vllm'],
    tests: [/takes out no more engines than the maximum share/, /keeps its requests if no other engine is left/],
  },
  {
    number: 20,
    title: 'one stalled rank of two: the other is untouched, and a stream continues there',
    types: ['vllm'],
    tests: [/a stalled rank of a server leaves the streams/, /continues at the other rank with the same text/],
  },
  {
    number: 21,
    title: 'SGLang’s event frames give the same index as vLLM’s',
    types: ['sglang'],
    tests: [
      /same index as vLLM’s, with pages of 1 tokens/,
      /same index as vLLM’s, with pages of 64 tokens/,
      /signed integers/,
      /prompts with a salt/,
      /prompts with an adapter/,
      /the medium CPU_PINNED/,
    ],
  },
  {
    number: 23,
    title: 'headers and fields that engines obey reach none',
    types: BOTH,
    tests: [/a header that it obeys/, /a field that it obeys/, /an adapter that the client names beside the model/],
  },
  {
    number: 24,
    title: 'an adapter is loaded once for 50 requests, evicted without live ones, and cold when it is back',
    types: BOTH,
    tests: [
      /adapters are loaded once for all requests that wait, from the path of the operator \(vllm\)/,
      /adapters are loaded once for all requests that wait, from the path of the operator \(sglang\)/,
      /an adapter is not unloaded while a request for it runs/,
      /the adapter that was not used for longest makes room/,
      /the cache of an adapter is cold after it was loaded again/,
      /no client makes an engine load an adapter/,
    ],
  },
  {
    number: 25,
    title: 'sleep, pause in three modes, new weights',
    types: BOTH,
    tests: [
      /waits while the only engine sleeps/,
      /ends what runs, then pauses an engine of type vllm/,
      /ends what runs, then pauses an engine of type sglang/,
      /mixes no versions in the answers of vllm/,
      /mixes no versions in the answers of sglang/,
      /ends or repeats what runs at once in the mode/,
      /counts weights as changed if the engine tells no version/,
    ],
  },
]
