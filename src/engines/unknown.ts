/** A server of a type that was not detected: the texts of all types count. */
import { answersBy } from './answer-meaning.ts'
import { PLAIN, VERSION_PATTERN, type EngineType } from './engine-type.ts'
import { FIRSTLIGHT_TEXTS } from './firstlight.ts'
import { LLAMA_CPP_TEXTS, LLAMA_CPP_TOO_LONG } from './llama-cpp.ts'
import { OLLAMA_TEXTS } from './ollama.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'
import { sglang, SGLANG_TEXTS, SGLANG_TOO_LONG } from './sglang.ts'
import { TENSORRT_LLM_TOO_LONG } from './tensorrt-llm.ts'
import { TGI_TEXTS, TGI_TOO_LONG } from './tgi.ts'
import { capacityFromModels } from './model-list.ts'
import { vllm, VLLM_TEXTS, VLLM_TOO_LONG } from './vllm.ts'

const anyOf = (...patterns: readonly RegExp[]): RegExp => new RegExp(patterns.map(({ source }) => source).join('|'))

export const unknown: EngineType = {
  ...PLAIN,
  name: 'unknown',
  title: 'Unknown server',
  version: { path: '/version', pattern: VERSION_PATTERN },
  capacity: { path: '/v1/models', read: capacityFromModels },
  answerOf: answersBy({
    texts: [
      ...VLLM_TEXTS,
      ...SGLANG_TEXTS,
      ...LLAMA_CPP_TEXTS,
      ...TGI_TEXTS,
      ...OLLAMA_TEXTS,
      ...FIRSTLIGHT_TEXTS,
      ...PROXY_TEXTS,
    ],
    tooLong: [...VLLM_TOO_LONG, ...SGLANG_TOO_LONG, ...TENSORRT_LLM_TOO_LONG, ...LLAMA_CPP_TOO_LONG, ...TGI_TOO_LONG],
    tooManyRequests: 'busy',
  }),
  ranks: { ...vllm.ranks!, outOfRange: anyOf(vllm.ranks!.outOfRange, sglang.ranks!.outOfRange) },
  // Most engines are vLLM or copy its API. A missing route shows at the first call.
  tokenize: vllm.tokenize,
  sleep: vllm.sleep,
  addable: vllm.addable,
}
