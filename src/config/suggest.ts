/** Suggests the most similar known word for a misspelt one. */

/** Returns `; did you mean "x"?` for the most similar known word, or '' if none is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  const normalised = normalise(word)
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(normalised.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(normalised, normalise(candidate))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best === null ? '' : `; did you mean "${best}"?`
}

/** Normalises a word: `blockTokens`, `block-tokens` and `Block_Tokens` equal `block_tokens`. */
function normalise(word: string): string {
  return word.replaceAll(/[-_.\s]/g, '').toLowerCase()
}

/**
 * Optimal string alignment distance: insertions, deletions, replacements, and swaps of neighbours cost 1 each.
 * @testing
 */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, beforeLast[column - 2]! + 1)
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return last[b.length]!
}
