import type { PreTokenizer } from './pre-tokenize.ts'

/** Classes of transformers 5 that split words by their own rule, whatever the pre-tokenizer of tokenizer.json is. */
const SPLITTING: Readonly<Record<string, PreTokenizer>> = { Qwen2Tokenizer: 'qwen2', GPT2Tokenizer: 'gpt2' }

/**
 * `model_type` of config.json → class that transformers 5 loads for it, also where tokenizer_config.json names a
 * generic one.
 */
const CLASSES: Readonly<Record<string, string>> = {
  gpt2: 'GPT2Tokenizer',
  qwen2: 'Qwen2Tokenizer',
  qwen2_moe: 'Qwen2Tokenizer',
  qwen2_vl: 'Qwen2Tokenizer',
  qwen2_5_vl: 'Qwen2Tokenizer',
  qwen3: 'Qwen2Tokenizer',
  qwen3_moe: 'Qwen2Tokenizer',
}

interface ReplacedSplitting {
  readonly tokenizerClass: string
  readonly splitting: PreTokenizer
}

/**
 * Tokenizer class with which engines replace the splitting of a model folder's tokenizer.json; null: none is known to.
 * @param declared `tokenizer_class` of tokenizer_config.json
 * @param modelType `model_type` of config.json
 */
export function replacedSplitting(
  compiled: PreTokenizer,
  { declared, modelType }: { readonly declared: unknown; readonly modelType: unknown },
): ReplacedSplitting | null {
  const named = typeof declared === 'string' ? declared.replace(/Fast$/, '') : ''
  const known = Object.hasOwn(SPLITTING, named) ? named : CLASSES[String(modelType)]
  const splitting = known === undefined ? undefined : SPLITTING[known]
  return known === undefined || splitting === undefined || splitting === compiled
    ? null
    : { tokenizerClass: known, splitting }
}
