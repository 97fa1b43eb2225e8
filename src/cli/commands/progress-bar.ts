/** Formats rows as lines with aligned columns. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length)
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}

const WIDTH = 30

export interface ProgressBar {
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
