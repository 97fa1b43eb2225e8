const WIDTH = 30

interface ProgressBar {
  draw(done: number, of: number): void
  clear(): void
}

/** Draws a progress bar on standard error if it is a terminal; otherwise prints nothing, so that logs stay readable. */
export function progressBar(
  label: string,
  stream: { readonly isTTY?: boolean; write(text: string): unknown } = process.stderr,
): ProgressBar {
  if (stream.isTTY !== true) return { draw() {}, clear() {} }
  return {
    draw(done, of) {
      const filled = Math.round((WIDTH * done) / Math.max(1, of))
      stream.write(`\r${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${done}/${of} ${label}`)
    },
    clear() {
      stream.write('\r\u001b[K')
    },
  }
}
