/**
 * Cost of the first prompt after a start: one process, one call. Arguments: `ours|unwarmed|theirs`, vocabulary, text.
 * Prints JSON.
 */
import { readFileSync } from 'node:fs'
import { Tokenizer } from '@huggingface/tokenizers'
import { openVocabulary } from '../../../src/vocabulary.ts'
import { IdBuffer } from '../../../src/core/tokens/id-buffer.ts'
import { warmUp } from '../../../src/platform/node/warm-up.ts'

const [who, vocabularyFile, textFile] = process.argv.slice(2) as [string, string, string]
const file = readFileSync(vocabularyFile)
const text = readFileSync(textFile, 'utf8')

let start = performance.now()
let encode: () => number
if (who !== 'theirs') {
  const opened = await openVocabulary(file)
  // As the gateway does at its start on Node, but not on Workers.
  if (who === 'ours') warmUp([opened])
  const { tokenizer } = opened
  encode = () => {
    const out = new IdBuffer()
    tokenizer.encode(text, false, out)
    return out.length
  }
} else {
  const tokenizer = new Tokenizer(JSON.parse(file.toString('utf8')), {})
  encode = () => tokenizer.encode(text, { add_special_tokens: false }).ids.length
}
const load_ms = performance.now() - start
start = performance.now()
const tokens = encode()
console.log(JSON.stringify({ load_ms, encode_ms: performance.now() - start, tokens }))
