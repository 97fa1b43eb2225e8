/** Parts of tokenizer_config.json that a chat template needs. */
import { isJsonObject } from '../json.ts'
import { VocabularyError } from './vocabulary.ts'

const specialNames = [
  'bos_token',
  'eos_token',
  'unk_token',
  'pad_token',
  'sep_token',
  'cls_token',
  'mask_token',
] as const

/**
 * Template and special tokens of a parsed tokenizer_config.json (or special_tokens_map.json). Throws a
 * VocabularyError.
 */
export function readTokenizerConfig(config: unknown): {
  template: string | null
  specials: Readonly<Record<string, string>>
} {
  if (!isJsonObject(config)) throw new VocabularyError('tokenizer_config.json is not an object')
  const specials: Record<string, string> = {}
  for (const name of specialNames) {
    const value = config[name]
    const text = isJsonObject(value) ? value['content'] : value
    if (typeof text === 'string') specials[name] = text
  }
  return { template: readTemplate(config['chat_template']), specials }
}

/** The single template, or the one named `default`: vLLM also uses another only on request. */
function readTemplate(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string') return value
  const named = Array.isArray(value)
    ? value.find((entry) => isJsonObject(entry) && entry['name'] === 'default')
    : undefined
  if (isJsonObject(named) && typeof named['template'] === 'string') return named['template']
  throw new VocabularyError(
    '`chat_template` is neither a text nor a list with one named `default`: give the right one with --template FILE',
  )
}
