/** Chained block hashes of any content: equal prefixes have equal hashes. */
export function chain(content: readonly (string | number)[]): Uint32Array {
  const blocks = new Uint32Array(content.length * 2)
  let lo = 0x811c9dc5
  let hi = 0x1b873593
  content.forEach((block, at) => {
    for (const char of `${block}|`) {
      lo = Math.imul(lo ^ char.charCodeAt(0), 0x01000193)
      hi = Math.imul(hi ^ (lo >>> 13) ^ char.charCodeAt(0), 0x85ebca6b)
    }
    blocks[at * 2] = lo
    blocks[at * 2 + 1] = hi
  })
  return blocks
}

export const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at)
