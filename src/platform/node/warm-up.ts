import { IdBuffer } from '../../core/tokens/id-buffer.ts'
import type { OpenVocabulary } from '../../vocabulary.ts'

/** Common words: most are one token everywhere, two written together are none. */
const WORDS = 'the of and to in is that for it with as was on be at by this have from or one had not but what all were when we there can an your which their if will each about how'.split(' ')
/** About how much it takes until the engine of JavaScript has compiled what a prompt runs through. */
const CHARS = 150_000

/**
 * Runs text through every tokenizer before the first prompt does: code that has never run is several times slower, and
 * a long prompt that meets it would hold up all others for as long. Costs some tens of milliseconds at the start.
 */
export function warmUp(vocabularies: Iterable<Pick<OpenVocabulary, 'tokenizer'>>): void {
  const text = sample()
  const ids = new IdBuffer()
  for (const { tokenizer } of vocabularies) {
    ids.clear()
    tokenizer.encode(text, true, ids)
  }
}

/** Words, numbers, marks, code and line ends, as prompts mix them. */
function sample(): string {
  let text = ''
  for (let at = 0; text.length < CHARS; at++) {
    const word = WORDS[at % WORDS.length]!
    const other = WORDS[(at * 7 + (at >> 5)) % WORDS.length]!
    if (at % 12 < 7) text += ` ${word}`
    else if (at % 12 < 9) text += ` ${word}${other}`
    else if (at % 12 === 9) text += `, ${at}`
    else if (at % 12 === 10) text += `.\n${word}'s`
    else text += ` é${word}("${other}")`
  }
  return text
}
