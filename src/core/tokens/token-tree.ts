import type { Vocabulary } from './vocabulary.ts'

/** Tree of the bytes of all tokens. Children of a node are in a row, by their byte. */
export class TokenTree {
  readonly #labels: Uint8Array
  /** First child of each node; the next node's first child ends them. */
  readonly #children: Uint32Array
  readonly #tokens: Int32Array

  constructor(vocabulary: Vocabulary) {
    const labels = [0]
    const children: number[] = []
    const tokens: number[] = []
    const sorted = sortedTokens(vocabulary)
    // Breadth first: of each open node the tokens below it, and the length that they share.
    const from = [0]
    const to = [sorted.length]
    const depths = [0]
    for (let node = 0; node < labels.length; node++) {
      const depth = depths[node] as number
      const last = to[node] as number
      let first = from[node] as number
      const ends = first < last && (sorted[first] as SortedToken).bytes.length === depth
      tokens.push(ends ? (sorted[first++] as SortedToken).id : -1)
      children.push(labels.length)
      while (first < last) {
        const label = (sorted[first] as SortedToken).bytes[depth] as number
        let end = first + 1
        while (end < last && (sorted[end] as SortedToken).bytes[depth] === label) end++
        labels.push(label)
        from.push(first)
        to.push(end)
        depths.push(depth + 1)
        first = end
      }
    }
    children.push(labels.length)
    this.#labels = Uint8Array.from(labels)
    this.#children = Uint32Array.from(children)
    this.#tokens = Int32Array.from(tokens)
  }

  /** -1: none. */
  child(node: number, byte: number): number {
    let low = this.#children[node] as number
    let high = (this.#children[node + 1] as number) - 1
    while (low <= high) {
      const middle = (low + high) >>> 1
      const label = this.#labels[middle] as number
      if (label === byte) return middle
      if (label < byte) low = middle + 1
      else high = middle - 1
    }
    return -1
  }

  /** Token that ends at the node. -1: none. */
  idAt(node: number): number {
    return this.#tokens[node] as number
  }
}

interface SortedToken {
  readonly id: number
  readonly bytes: Uint8Array
}

function sortedTokens(vocabulary: Vocabulary): SortedToken[] {
  const tokens: SortedToken[] = []
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytesOf(id)
    if (bytes.length > 0) tokens.push({ id, bytes })
  }
  return tokens.sort(({ bytes: a }, { bytes: b }) => {
    const length = Math.min(a.length, b.length)
    for (let i = 0; i < length; i++) if (a[i] !== b[i]) return (a[i] as number) - (b[i] as number)
    return a.length - b.length
  })
}
