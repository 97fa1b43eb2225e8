import { isText } from '../../core/tokens/utf8-text.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * The estimate of production-stack#890, for thresholds that were tuned there: a quarter of the code points of the
 * prompt or the messages' text, ids as they are, 0 for anything else. It is far too low for Chinese and Japanese. A
 * single text in a list counts as the text, where #890 counts one token.
 */
export function estimateTokensByChars(json: Json): number {
  const { prompt: given, messages, system } = json
  const prompt: unknown = Array.isArray(given) && given.length === 1 && typeof given[0] !== 'number' ? given[0] : given
  if (isText(prompt)) return Math.floor(characters(String(prompt)) / 4)
  if (Array.isArray(prompt)) return prompt.length
  if (!Array.isArray(messages)) return 0
  let sum = charactersOf(system)
  for (const message of messages as (Json | null)[]) sum += charactersOf(message?.['content'])
  return Math.floor(sum / 4)
}

function charactersOf(content: unknown): number {
  if (isText(content)) return characters(String(content))
  if (!Array.isArray(content)) return 0
  let sum = 0
  for (const part of content as (Json | null)[])
    if (part?.['type'] === 'text' && isText(part['text'])) sum += characters(String(part['text']))
  return sum
}

/** Code points: a surrogate pair is one. */
function characters(text: string): number {
  let pairs = 0
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xdc00) pairs++
  return text.length - pairs
}
