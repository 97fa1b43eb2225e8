/** Bytes as 32-bit words, the last of which may overlap: comparing words takes a fourth of the time. */
export interface Words {
  readonly bytes: number
  readonly words: readonly number[]
}

/** At least four bytes; copies them. */
export function wordsOf(bytes: Uint8Array): Words {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const words: number[] = []
  for (let at = 0; at + 4 <= bytes.length; at += 4) words.push(view.getInt32(at))
  words.push(view.getInt32(bytes.length - 4))
  return { bytes: bytes.length, words }
}

export function isAt(view: DataView, at: number, { bytes, words }: Words): boolean {
  const last = words.length - 1
  for (let i = 0; i < last; i++) if (view.getInt32(at + 4 * i) !== words[i]) return false
  return view.getInt32(at + bytes - 4) === words[last]
}

/** View of the memory that was read last: reads have many events, and a view costs more than a comparison. */
let lastView: DataView = new DataView(new ArrayBuffer(0))

export function viewOf({ buffer }: Uint8Array): DataView {
  if (lastView.buffer !== buffer) lastView = new DataView(buffer)
  return lastView
}
