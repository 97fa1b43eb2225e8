const LF = 10

/** Whether the range is one event of one or two lines with the blank line that ends it. Most events are. */
export function isOneEvent(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from <= 2 || bytes[to - 1] !== LF || bytes[to - 2] !== LF || bytes[from] === LF) return false
  const first = bytes.indexOf(LF, from)
  if (first === to - 2) return true
  const second = bytes.indexOf(LF, first + 1)
  // A blank line in between ends an event.
  return second === to - 2 && second > first + 1
}
