export interface Arguments {
  readonly name: string | null
  readonly flags: Readonly<Record<string, string | true>>
  readonly args: readonly string[]
}

/**
 * `NAME --key value --key=value --flag word…`; a flag takes the next word unless that is a flag itself. `--` ends
 * flags.
 */
export function parseArgs(words: readonly string[]): Arguments {
  const flags: Record<string, string | true> = {}
  const plain: string[] = []
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!
    if (word === '--') {
      plain.push(...words.slice(at + 1))
      break
    }
    if (!word.startsWith('--')) {
      plain.push(word)
      continue
    }
    const split = word.indexOf('=')
    const next = words[at + 1]
    if (split > 0) flags[word.slice(2, split)] = word.slice(split + 1)
    else if (next !== undefined && !next.startsWith('--')) {
      flags[word.slice(2)] = next
      at++
    } else flags[word.slice(2)] = true
  }
  return { name: plain[0] ?? null, flags, args: plain.slice(1) }
}
